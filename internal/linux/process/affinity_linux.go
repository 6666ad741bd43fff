package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxCPU is the number of CPUs in a unix.CPUSet (CPU_SETSIZE, sched.h).
const maxCPU = 1024

// Affinity returns the CPUs that the thread tid may use, in ascending order. A process stands for its main thread; 0 is
// the calling thread.
func Affinity(tid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return nil, fmt.Errorf("read the affinity of thread %d: %w", tid, err)
	}
	cpus := make([]int, 0, set.Count())
	for c := range maxCPU {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// SetAffinity limits the thread tid to the given CPUs. It returns an error unless the thread may use all of them. A
// process stands for its main thread; 0 is the calling thread, which the caller has locked.
func SetAffinity(tid int, cpus []int) error {
	want := slices.Compact(slices.Sorted(slices.Values(cpus)))
	var set unix.CPUSet
	for _, c := range want {
		if c < 0 || c >= maxCPU {
			return fmt.Errorf("set the affinity of thread %d: invalid CPU %d (valid: 0 to %d)", tid, c, maxCPU-1)
		}
		set.Set(c)
	}
	before, err := Affinity(tid)
	if err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("set the affinity of thread %d to CPUs %v (it may run on %v): %w", tid, want, before, err)
	}
	// The kernel silently leaves out CPUs that are offline or not in the cpuset (sched_setaffinity(2)).
	got, err := Affinity(tid)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		_ = SetAffinity(tid, before) // restore it; ignore a second error
		return fmt.Errorf("set the affinity of thread %d to CPUs %v: the kernel grants %v only", tid, want, got)
	}
	return nil
}

// SetAffinities limits all threads that a process has to the given CPUs, see [SetAffinity]. Threads that they start are
// limited as well.
func SetAffinities(pid int, cpus []int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := SetAffinity(tid, cpus); err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
			return err
		}
	}
	return nil
}
