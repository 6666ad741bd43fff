package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// Isolate turns the namespaces of PID 1, which [Options.Namespaces] made, into a host of their own. Mounts are private.
// /proc and /sys show this PID and network namespace and no cgroups; machine-wide settings are read-only there. /run is
// empty except for /run/netns, /dev has few devices and its own shared memory, and the host has a name. Nothing of it
// is visible outside. If mounts are not allowed, the error is a [linux.UnsupportedError].
func Isolate(hostname string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", flags, ""},
		{"sysfs", "/sys", "sysfs", flags, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			what := fmt.Sprintf("mount %s on %s", m.kind, m.target)
			if m.kind == "" {
				what = "make mounts private"
			}
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
				return &linux.UnsupportedError{
					What: what, Missing: "CAP_SYS_ADMIN over the mounts", Err: err,
					Hint: "in a container, /proc and /sys must not be masked: docker run --privileged",
				}
			}
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := mask(); err != nil {
		return err
	}
	if err := os.Mkdir("/run/netns", 0o755); err != nil {
		return fmt.Errorf("make the directory of namespaces: %w", err)
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("set host name %q: %w", hostname, err)
	}
	return nil
}

// Supervise is the main function of PID 1. It starts one child with this process's standard files, passes SIGTERM and
// SIGINT on to it, and reaps all other processes that become its children. It returns the exit status of the child, or
// 128 plus the number of the signal that ended it. Open files that are not close-on-exec are inherited under their
// numbers. The child reaps its own children.
func Supervise(path string, argv, env []string) (int, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)

	child, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("start %q: %w", path, exhausted(err))
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				if n, ok := s.(syscall.Signal); ok {
					_ = unix.Kill(child, n) // it may be gone; Wait4 reports that
				}
			}
		}
	}()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for %q: %w", path, err)
		case pid == child && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == child && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
