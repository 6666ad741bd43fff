package idle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

const (
	cpuDir = "sys/devices/system/cpu/"
)

// Asleep returns how long the CPUs have slept since the machine was started, summed over the CPUs. It counts the time
// in all idle states except the first, which a CPU leaves at once (Documentation/admin-guide/pm/cpuidle.rst). Root is
// the root of the file system. The error is a [linux.UnsupportedError] if the kernel has no idle states.
func Asleep(root fs.FS, cpus []int) (time.Duration, error) {
	var sum time.Duration
	for _, cpu := range cpus {
		states, err := fs.ReadDir(root, fmt.Sprintf("%scpu%d/cpuidle", cpuDir, cpu))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, driverless("read how long CPUs slept", err)
		}
		if err != nil {
			return 0, fmt.Errorf("read how long CPU %d slept: %w", cpu, err)
		}
		for _, s := range states {
			if s.Name() == "state0" {
				continue
			}
			text, err := fs.ReadFile(root, path.Join(fmt.Sprintf("%scpu%d/cpuidle", cpuDir, cpu), s.Name(), "time"))
			if err != nil {
				return 0, fmt.Errorf("read how long CPU %d slept: %w", cpu, err)
			}
			us, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read how long CPU %d slept: %w", cpu, err)
			}
			sum += time.Duration(us) * time.Microsecond
		}
	}
	return sum, nil
}

// Polls reports whether the machine was started with idle=poll, so that its CPUs never sleep.
func Polls(root fs.FS) bool {
	text, err := fs.ReadFile(root, "proc/cmdline")
	return err == nil && slices.Contains(strings.Fields(string(text)), "idle=poll")
}

// driven returns nil if a cpuidle driver decides how CPUs sleep. Without one, the kernel ignores /dev/cpu_dma_latency
// (cpuidle_idle_call, kernel/sched/idle.c).
func driven(root fs.FS) error {
	text, err := fs.ReadFile(root, cpuDir+"cpuidle/current_driver")
	if err != nil {
		return driverless(keep, err)
	}
	if strings.TrimSpace(string(text)) == "none" {
		return driverless(keep, nil)
	}
	return nil
}

const keep = "keep CPUs awake"

func driverless(what string, err error) error {
	return &linux.UnsupportedError{
		What: what, Missing: "cpuidle driver", Err: err,
		Hint: "in a virtual machine, use a kernel with CONFIG_HALTPOLL_CPUIDLE or load the module cpuidle-haltpoll",
	}
}
