package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

// KsoftirqdStat opens /proc/PID/schedstat of the kernel thread that works off the softirqs of one CPU. The first
// figure in it is the thread's run time in ns (Documentation/scheduler/sched-stats.rst). The open file goes on working
// in namespaces where the thread cannot be seen. Where it cannot be seen now, the error is a [linux.UnsupportedError].
func KsoftirqdStat(cpu int) (*os.File, error) {
	what := fmt.Sprintf("open the run time of ksoftirqd/%d", cpu)
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	// Kernel threads of the CPUs start early: their numbers are small.
	pids := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	want := fmt.Sprintf("ksoftirqd/%d", cpu)
	for _, pid := range pids {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || strings.TrimSuffix(string(comm), "\n") != want {
			continue // gone in the meantime, or another
		}
		// A process may call itself so too; kernel threads have no executable.
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
			continue
		}
		f, err := os.Open(fmt.Sprintf("/proc/%d/schedstat", pid))
		if errors.Is(err, os.ErrNotExist) {
			return nil, &linux.UnsupportedError{
				What: what, Missing: "/proc/PID/schedstat", Hint: "a kernel with CONFIG_SCHED_INFO", Err: err,
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return f, nil
	}
	return nil, &linux.UnsupportedError{
		What: what, Missing: want + " in /proc",
		Hint: "run in the PID namespace of the machine (docker run --pid=host)",
	}
}
