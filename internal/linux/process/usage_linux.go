package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cpuclockSched = 2 // CPUCLOCK_SCHED, include/linux/posix-timers_types.h: the run time of all threads of a process

	tick = 10 * time.Millisecond // of /proc/PID/stat: USER_HZ is 100 on every architecture Go runs on (proc_pid_stat(5))
)

// Usage returns the CPU time so far of the program and its descendants that run or were reaped. After the program has
// ended, it is the time of all reaped processes. Descendants that were killed with it were not reaped, so a larger
// value at the last signal counts instead.
func (c *Child) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return c.usage
	}
	return c.soFar()
}

// RunTime returns the CPU time so far of all threads of a process; 0 if it is gone.
func RunTime(pid int) time.Duration {
	var ts unix.Timespec
	// clock_getcpuclockid(3), MAKE_PROCESS_CPUCLOCK
	if err := unix.ClockGettime(int32(^pid<<3|cpuclockSched), &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// RunTimeIn returns the CPU time so far of the threads that a process of another PID namespace has, whose processes
// proc lists; 0 if it is gone. What a thread that runs has used since the last tick is missing
// (Documentation/scheduler/sched-stats.rst).
func RunTimeIn(proc *os.File, pid int) (sum time.Duration) {
	root := fmt.Sprintf("/proc/self/fd/%d/%d/task", proc.Fd(), pid)
	threads, err := os.ReadDir(root)
	if err != nil {
		return 0
	}
	for _, t := range threads {
		text, err := os.ReadFile(filepath.Join(root, t.Name(), "schedstat"))
		if err != nil {
			continue // it has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		if ns, err := strconv.ParseInt(first, 10, 64); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}

// soFar returns the CPU time of a program that was not reaped, and of its descendants.
func (c *Child) soFar() (sum Usage) {
	for _, pid := range family(c.pid) {
		var ts unix.Timespec
		// The clock of another process: clock_getcpuclockid(3), MAKE_PROCESS_CPUCLOCK. A process has it until it is
		// reaped.
		if err := unix.ClockGettime(int32(^pid<<3|cpuclockSched), &ts); err != nil {
			continue // it has ended
		}
		sum.Run += time.Duration(ts.Nano())
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			user, waitedUser, waitedSystem := times(string(text))
			sum.Run += waitedUser + waitedSystem
			sum.User += user + waitedUser
		}
	}
	return sum
}

// family returns a process and its running descendants. If the kernel does not list children (CONFIG_PROC_CHILDREN), it
// returns only the process.
func family(pid int) []int {
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		dir := fmt.Sprintf("/proc/%d/task", pids[i])
		threads, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended
		}
		for _, t := range threads {
			text, err := os.ReadFile(dir + "/" + t.Name() + "/children")
			if err != nil {
				continue
			}
			for word := range strings.FieldsSeq(string(text)) {
				if child, err := strconv.Atoi(word); err == nil {
					pids = append(pids, child)
				}
			}
		}
	}
	return pids
}

// afterName returns the fields of /proc/PID/stat from the third on. The second one is a name in parentheses, which may
// contain any character.
func afterName(stat string) []string {
	return strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
}

// times reads utime, cutime and cstime, fields 14, 16 and 17 of /proc/PID/stat.
func times(stat string) (user, waitedUser, waitedSystem time.Duration) {
	const third = 3
	fields := afterName(stat)
	field := func(n int) time.Duration {
		if n-third >= len(fields) {
			return 0
		}
		ticks, err := strconv.ParseInt(fields[n-third], 10, 64)
		if err != nil || ticks < 0 {
			return 0
		}
		return time.Duration(ticks) * tick
	}
	return field(14), field(16), field(17)
}
