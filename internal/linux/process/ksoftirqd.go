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

// KsoftirqdStat opens /proc/PID/schedstat of the kernel thread that runs deferred softirqs of one CPU. Its first number
// is the thread's run time in ns (Documentation/scheduler/sched-stats.rst). The open file also works in namespaces in
// which the thread is not visible. If it is not visible now, the error is a [linux.UnsupportedError].
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
	// Kernel threads of the CPUs start early, so their PIDs are small.
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
			continue // gone in the meantime, or another process
		}
		// A process may have the same name; kernel threads have no executable.
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
