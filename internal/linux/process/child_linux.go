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
	// outputLimit is how much a child may write to each of its files, in bytes: they are memory. Beyond it the kernel ends
	// the child (RLIMIT_FSIZE, setrlimit(2)).
	outputLimit = 256 << 20

	// killLimit is how long a killed child may take to be gone: it is not, only while the kernel does something for it.
	killLimit = time.Second

	// groupLimit is how long what it has left behind is waited for, which somebody else has to reap, and groupPoll how
	// often that is looked for.
	groupLimit = 50 * time.Millisecond
	groupPoll  = time.Millisecond
)

// A Child is a program that a measuring thread has started with [Spawn]. Nothing of the Go runtime is needed until it
// ends: its output goes to memory, and waiting is a system call. Its methods may be called by several goroutines.
type Child struct {
	pid, pidfd     int
	stdout, stderr *os.File

	mu     sync.Mutex // of what follows
	ended  bool
	status syscall.WaitStatus
	usage  Usage // the most of: when it got a signal, and of what was waited for when it ended
}

// Spawn starts a program on the calling thread, in that thread's namespaces, on its CPUs and with its scheduling
// policy. The kernel kills it when that thread ends: the caller has locked the thread and stays. It leads a process
// group of its own, so that what it starts itself gets the signals that it gets, and is killed when it has ended. Files
// are inherited under the numbers from 3 on. [Child.Close] must be called. Argv begins with the program's name; env is
// its whole environment.
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

// Memory makes a file in memory that a child can write to.
func Memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// PID returns the number of the process in the caller's PID namespace.
func (c *Child) PID() int { return c.pid }

// Wait sleeps until the program has ended, and returns true, or the time is CLOCK_MONOTONIC = deadline in ns, and
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

// reap takes the status of a program that has ended. What it has started and left behind ends with it: until it is
// reaped nobody else has the number of its group.
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
	// nearly always none is left
	for limit := clock.Now() + int64(groupLimit); unix.Kill(-c.pid, 0) == nil && clock.Now() < limit; {
		time.Sleep(groupPoll)
	}
	if run := time.Duration(usage.Utime.Nano() + usage.Stime.Nano()); run >= c.usage.Run {
		c.usage = Usage{Run: run, User: time.Duration(usage.Utime.Nano())}
	}
	c.ended = true
}

// Signal sends a signal to the program and to what it has started, as a terminal does. One that has ended needs none.
func (c *Child) Signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && c.pidfd >= 0 {
		if u := c.soFar(); u.Run > c.usage.Run {
			c.usage = u
		}
		_ = unix.Kill(-c.pid, s) // it may be ending just now; nobody else gets its number before it is reaped
	}
}

// End says how the program ended: "" if with status 0, else "exit status 1" or "signal: killed". It is "still running"
// before.
func (c *Child) End() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.ended:
		return "still running"
	case c.status.Signaled():
		return "signal: " + c.status.Signal().String()
	case c.status.ExitStatus() != 0:
		return fmt.Sprintf("exit status %d", c.status.ExitStatus())
	}
	return ""
}

// Killed says that a signal ended the program.
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

// Close kills the program if it still runs and what it has started, waits for its end and forgets its output. It is
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
