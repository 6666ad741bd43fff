package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

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
	set, want, err := setOf(cpus)
	if err != nil {
		return fmt.Errorf("set the affinity of thread %d: %w", tid, err)
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

// setOf returns CPUs as the kernel has them, and as a list without duplicates.
func setOf(cpus []int) (set unix.CPUSet, list []int, err error) {
	list = slices.Compact(slices.Sorted(slices.Values(cpus)))
	for _, c := range list {
		if c < 0 || c >= maxCPU {
			return set, nil, fmt.Errorf("invalid CPU %d (valid: 0 to %d)", c, maxCPU-1)
		}
		set.Set(c)
	}
	return set, list, nil
}

// SetOwnAffinity limits all threads of this process to the given CPUs, and those that they will start. It returns an
// error unless they may use all of them.
func SetOwnAffinity(cpus []int) error {
	set, want, err := setOf(cpus)
	if err != nil {
		return fmt.Errorf("set the affinity of this process: %w", err)
	}
	before, err := Affinity(0)
	if err != nil {
		return err
	}
	// No thread is started meanwhile: one by one, a thread that is limited later could have started others before.
	_, _, failed := syscall.AllThreadsSyscall(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set),
		uintptr(unsafe.Pointer(&set)))
	if failed == unix.ENOTSUP { // with a C library, as with the race detector
		return eachThread(want)
	}
	if failed != 0 {
		return fmt.Errorf("set the affinity of this process to CPUs %v (it may run on %v): %w", want, before, failed)
	}
	if got, err := Affinity(0); err != nil || !slices.Equal(got, want) {
		return errors.Join(err, fmt.Errorf("set the affinity of this process to CPUs %v: the kernel grants %v only", want,
			got))
	}
	return nil
}

// eachThread limits the threads that are there, one by one.
func eachThread(cpus []int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list the threads of this process: %w", err)
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
