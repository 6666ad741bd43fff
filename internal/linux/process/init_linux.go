package process

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
)

// Isolate turns the namespaces of PID 1, which [Options.Namespaces] made, into a host of their own. Mounts are private.
// /proc and /sys show this PID and network namespace; machine-wide settings are read-only there. With cgroups, those of
// the machine are below /sys/fs/cgroup, otherwise there are none. /run is empty except for /run/netns and what
// containers with user namespaces need (whole), /dev has few devices and its own shared memory, and the host has a
// name. Nothing of it is visible outside. If mounts are not allowed, the error is a [linux.UnsupportedError].
func Isolate(hostname string, cgroups bool) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", flags, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	} {
		if err := m.make(); err != nil {
			return err
		}
	}
	if err := newSys(flags, cgroups); err != nil {
		return err
	}
	if err := showWhole(flags); err != nil {
		return err
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

// whole is where a host has a /proc and a /sys that nothing covers, for root alone. In a user namespace these can be
// mounted only if they can already be seen with nothing over a part of them (mount_too_revealing, fs/namespace.c).
const whole = "/run/whole"

// showWhole mounts them.
func showWhole(flags uintptr) error {
	if err := os.Mkdir(whole, 0o700); err != nil {
		return fmt.Errorf("make the directory of a whole /proc: %w", err)
	}
	for _, kind := range []string{"proc", "sysfs"} {
		at := filepath.Join(whole, kind)
		if err := os.Mkdir(at, 0o700); err != nil {
			return fmt.Errorf("make the directory of a whole /proc: %w", err)
		}
		if err := (mount{kind, at, kind, flags, ""}).make(); err != nil {
			return err
		}
	}
	return nil
}

// newSys mounts a sysfs of this network namespace. It hides the cgroups, which are mounted on the old one.
func newSys(flags uintptr, cgroups bool) error {
	sys := mount{"sysfs", "/sys", "sysfs", flags, ""}
	if !cgroups {
		return sys.make()
	}
	mounted, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	if len(mounted) == 0 {
		return sys.make()
	}
	const kept = "/run/cgroup"
	if err := os.Mkdir(kept, 0o755); err != nil {
		return fmt.Errorf("keep the cgroups: %w", err)
	}
	for _, m := range []mount{{cgroup.Dir, kept, "", unix.MS_BIND | unix.MS_REC, ""}, sys} {
		if err := m.make(); err != nil {
			return err
		}
	}
	if err := showCgroups(kept, mounted); err != nil {
		return err
	}
	if err := unix.Unmount(kept, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("keep the cgroups: %w", err)
	}
	return os.Remove(kept)
}

// showCgroups mounts the hierarchies that are kept where programs look for them: that of v2 alone, or those of v1 in a
// directory of our own. Beside those of v1, one of v2 has no controllers that containers need; crun before 1.9 refuses
// it, and would leave directories where it is not mounted.
func showCgroups(kept string, mounted []cgroup.Hierarchy) error {
	if len(mounted) == 1 {
		return mount{kept, cgroup.Dir, "", unix.MS_BIND | unix.MS_REC, ""}.make()
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := (mount{"tmpfs", cgroup.Dir, "tmpfs", flags, "mode=0755"}).make(); err != nil {
		return err
	}
	for _, h := range mounted {
		if h.V2 {
			continue
		}
		name, err := filepath.Rel(cgroup.Dir, h.Dir)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(h.Dir, 0o755); err != nil {
			return fmt.Errorf("show the cgroups: %w", err)
		}
		if err := (mount{filepath.Join(kept, name), h.Dir, "", unix.MS_BIND | unix.MS_REC, ""}).make(); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(kept)
	if err != nil {
		return fmt.Errorf("show the cgroups: %w", err)
	}
	for _, e := range entries { // "cpu" is mostly a link to "cpu,cpuacct"
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		to, err := os.Readlink(filepath.Join(kept, e.Name()))
		if err == nil {
			err = os.Symlink(to, filepath.Join(cgroup.Dir, e.Name()))
		}
		if err != nil {
			return fmt.Errorf("show the cgroups: %w", err)
		}
	}
	return nil
}

// A mount is what mount(2) is told.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) make() error {
	err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data)
	if err == nil {
		return nil
	}
	what := fmt.Sprintf("mount %s on %s", cmp.Or(m.kind, m.source), m.target)
	if m.source == "" {
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
