package thread

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ID returns the calling thread's id in its PID namespace.
func ID() int { return unix.Gettid() }

// Pin binds the calling thread, which must be locked to its goroutine, to the given CPUs.
func Pin(cpus ...int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin thread to CPUs %v: %w", cpus, err)
	}
	return nil
}

// CPUs returns the CPUs that the calling thread may use, in ascending order.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read thread's CPUs: %w", err)
	}
	cpus := make([]int, 0, set.Count())
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// RunTime returns the CPU time that the calling thread has used, in nanoseconds. It is exact, not counted in ticks
// (CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)). It is a system call without a scheduling point.
//
//go:nosplit
func RunTime() int64 {
	var ts unix.Timespec
	// The call cannot fail: the clock id is valid on every kernel since 2.6.12, and the address is on the stack.
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Sec*1e9 + ts.Nsec
}

// UserTime returns the part of the calling thread's CPU time outside the kernel, in nanoseconds. The kernel estimates
// it from its ticks (4 ms at HZ=250): the value of a single trial may be wrong by several ticks, but the mean of many
// is right (getrusage(2), RUSAGE_THREAD).
func UserTime() int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		return 0
	}
	return usage.Utime.Nano()
}

// Park gives every thread of this process, except those listed, the scheduling policy SCHED_IDLE (sched(7)): it runs
// only if nothing else wants the CPU. The Go runtime's own threads (its monitor wakes up every 20 µs while it warms up)
// then cannot preempt a thread that measures. It can be called again for threads that were added later.
//
// It is for threads that measure on a CPU of their own. If several of them share a CPU, there is a problem: a thread
// that wakes up while only parked threads are there is placed far behind, because their weight is small
// (kernel/sched/fair.c, place_entity: the lag is inflated by (W+w)/W, here 1027/3). The other threads then run for
// hundreds of milliseconds before it.
func Park(except map[int]bool) error {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil || except[tid] {
			continue
		}
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
		if err := unix.SchedSetAttr(tid, &attr, 0); err != nil && err != unix.ESRCH {
			return fmt.Errorf("set thread %d to SCHED_IDLE: %w", tid, err)
		}
	}
	return nil
}

// Reserve makes the Go runtime create this many threads, which it keeps. If a limit on processes and threads is lowered
// later, a runtime that needs one more thread ends the whole program with a traceback (newosproc, runtime/os_linux.go).
// With threads in reserve, the failure to start the next process is an ordinary error.
func Reserve(n int) {
	var ready sync.WaitGroup
	ready.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
		}()
	}
	ready.Wait()
}
