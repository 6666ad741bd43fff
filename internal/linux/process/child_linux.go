package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/clock"
)

const (
	// outputLimit is how much a child may write to each of its files, in bytes, because they are in memory. The kernel
	// kills a child that writes more (RLIMIT_FSIZE, setrlimit(2)).
	outputLimit = 256 << 20

	// killLimit is how long a killed child may take to end: only work of the kernel for it can delay that.
	killLimit = time.Second

	// groupLimit is how long to wait for processes that it has left behind, which another process has to reap;
	// groupPoll is the time between two checks.
	groupLimit = 50 * time.Millisecond
	groupPoll  = time.Millisecond
)

// A Child is a program that a measuring thread has started with [Spawn]. It needs nothing of the Go runtime until it
// ends: its output goes to memory, and waiting is a system call. Its methods may be called by several goroutines.
type Child struct {
	pid, pidfd     int
	stdout, stderr *os.File

	mu     sync.Mutex // protects the fields below
	ended  bool
	status syscall.WaitStatus
	usage  Usage // the maximum of two: at the last signal, and of the reaped processes at the end
}

// Spawn starts a program from the calling thread, in that thread's namespaces, on its CPUs and with its scheduling
// policy. The kernel kills the program when that thread ends, so the caller must have locked the thread and must stay.
// The program leads a process group of its own: its child processes receive its signals, and are killed when it has
// ended. Files are inherited under the numbers from 3 on. [Child.Close] must be called. argv begins with the program's
// name; env is its whole environment.
func Spawn(path string, argv, env []string, files ...*os.File) (_ *Child, err error) {
	c := &Child{pidfd: -1}
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()
	if c.stdout, err = Memory("stdout"); err != nil {
		return nil, err
	}
	if c.stderr, err = Memory("stderr"); err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	fds := []uintptr{null.Fd(), c.stdout.Fd(), c.stderr.Fd()}
	for _, f := range files {
		fds = append(fds, f.Fd())
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: env, Files: fds, Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, PidFD: &c.pidfd, Setpgid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", path, exhausted(err))
	}
	c.pid = pid
	if c.pidfd < 0 {
		return nil, &linux.UnsupportedError{
			What: fmt.Sprintf("wait for %q", path), Missing: "pidfd", Hint: "Linux 5.4 or newer",
		}
	}
	// It may have ended already.
	limit := unix.Rlimit{Cur: outputLimit, Max: outputLimit}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("limit the output of %q: %w", path, err)
	}
	return c, nil
}

// Memory makes a file in memory to which a child can write.
func Memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// PID returns the PID of the process in the caller's PID namespace.
func (c *Child) PID() int { return c.pid }

// Wait sleeps until the program has ended, and returns true, or until CLOCK_MONOTONIC reaches deadline, in ns, and
// returns false.
func (c *Child) Wait(deadline int64) bool {
	for {
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		if ended {
			return true
		}
		left := max(0, deadline-clock.Now())
		timeout := unix.NsecToTimespec(left)
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}, &timeout, nil)
		if n > 0 {
			c.reap()
		} else if left == 0 && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// reap reads the status of a program that has ended, and kills the processes that it has left behind. Until it is
// reaped, no other group can have its number.
func (c *Child) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	var usage syscall.Rusage
	for {
		_, err := syscall.Wait4(c.pid, &c.status, 0, &usage)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	// in most cases none is left
	for limit := clock.Now() + int64(groupLimit); unix.Kill(-c.pid, 0) == nil && clock.Now() < limit; {
		time.Sleep(groupPoll)
	}
	if run := time.Duration(usage.Utime.Nano() + usage.Stime.Nano()); run >= c.usage.Run {
		c.usage = Usage{Run: run, User: time.Duration(usage.Utime.Nano())}
	}
	c.ended = true
}

// Signal sends a signal to the program and its child processes, like a terminal. It does nothing if the program has
// ended.
func (c *Child) Signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && c.pidfd >= 0 {
		if u := c.soFar(); u.Run > c.usage.Run {
			c.usage = u
		}
		_ = unix.Kill(-c.pid, s) // it may be ending just now; its number is not reused before it is reaped
	}
}

// End describes how the program ended: "" for status 0, otherwise "exit status 1" or "signal: killed". Before that, it
// is "still running".
func (c *Child) End() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.ended:
		return "still running"
	case c.status == 0:
		return ""
	}
	return ending(c.status)
}

// Killed reports whether a signal ended the program.
func (c *Child) Killed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended && c.status.Signaled()
}

// Stdout returns what the program has written to its standard output.
func (c *Child) Stdout() io.Reader { return content(c.stdout) }

// Stderr returns what the program has written to its standard error.
func (c *Child) Stderr() io.Reader { return content(c.stderr) }

func content(f *os.File) io.Reader { return io.NewSectionReader(f, 0, 1<<62) }

// Close kills the program and its child processes if they still run, waits for the end, and discards the output. It is
// idempotent.
func (c *Child) Close() error {
	if c.pid != 0 {
		if c.pidfd >= 0 {
			c.Signal(unix.SIGKILL)
			if !c.Wait(clock.Now() + int64(killLimit)) {
				return fmt.Errorf("process %d is killed and does not end", c.pid)
			}
		} else {
			_ = unix.Kill(c.pid, unix.SIGKILL)
			c.reap()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
		c.pidfd = -1
	}
	for _, f := range []*os.File{c.stdout, c.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
	return nil
}
