package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
)

// A Node is a machine of a cluster: what PID 1 of its namespaces makes of them.
type Node struct {
	// Hostname is its name.
	Hostname string
	// Cgroup names the control group of the node ([cgroup.Make]), which is the root of all that it sees; "" for none.
	Cgroup string
	// Binds are files and directories of the machine that are mounted in the node, in this order.
	Binds []Bind
	// Settings are machine-wide settings, such as "vm/overcommit_memory", that programs of the node want to write:
	// they get a file of their own, with the value of the machine at first.
	Settings []string
}

// A Bind is a mount of a file or directory at another place, which exists, or is below /run.
type Bind struct{ From, To string }

// Become turns the namespaces of PID 1, which [Options.Namespaces] made, into a node. It keeps the calling goroutine on
// its thread: only what it starts sees the node's control group as the root. Mounts are private, and /proc, /sys, /run
// and /tmp are the node's own. Files of the machine and its settings are read-only, except for the binds and what lies
// below them. Nothing of it is visible outside.
func (n Node) Become() error {
	if os.Getpid() != 1 {
		return errors.New("only PID 1 of its own namespaces becomes a node")
	}
	runtime.LockOSThread()
	if n.Cgroup != "" {
		if err := cgroup.Join(n.Cgroup); err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("make a cgroup namespace: %w", err)
		}
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	// Hierarchies are listed as they are mounted now, and mounted again below.
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	// What is bound is opened as long as nothing hides it.
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for _, b := range n.Binds {
		f, err := os.Open(b.From)
		if err != nil {
			return fmt.Errorf("mount %s in a node: %w", b.To, err)
		}
		files = append(files, f)
	}
	for _, m := range []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	} {
		if err := m.make(); err != nil {
			return err
		}
	}
	for i, b := range n.Binds {
		if err := bind(files[i], b.To); err != nil {
			return err
		}
	}
	for _, m := range []mount{
		{"proc", "/proc", "proc", flags, ""},
		{"sysfs", "/sys", "sysfs", flags, ""},
		{"tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	} {
		if err := m.make(); err != nil {
			return err
		}
	}
	if n.Cgroup != "" {
		if err := mountCgroups(hierarchies, flags); err != nil {
			return err
		}
	}
	if err := n.protect(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(n.Hostname)); err != nil {
		return fmt.Errorf("set host name %q: %w", n.Hostname, err)
	}
	return nil
}

// bind mounts an open file or directory, and makes the place for it below /run.
func bind(f *os.File, to string) error {
	info, err := f.Stat()
	if err == nil && strings.HasPrefix(to, "/run/") {
		if info.IsDir() {
			err = os.MkdirAll(to, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			err = os.WriteFile(to, nil, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("mount %s in a node: %w", to, err)
	}
	return mount{fmt.Sprintf("/proc/self/fd/%d", f.Fd()), to, "", unix.MS_BIND, ""}.make()
}

// mountCgroups mounts the hierarchies in a cgroup namespace: their roots are the node's groups.
func mountCgroups(hierarchies []cgroup.Hierarchy, flags uintptr) error {
	if err := (mount{"tmpfs", cgroup.Dir, "tmpfs", flags, "mode=0755"}).make(); err != nil {
		return err
	}
	for _, h := range hierarchies {
		if h.V2 {
			continue // programs of Kubernetes take those of v1 if there are both
		}
		if err := os.MkdirAll(h.Dir, 0o755); err != nil {
			return fmt.Errorf("show the cgroups: %w", err)
		}
		options := strings.Join(h.Controllers, ",")
		if strings.HasPrefix(options, "name=") {
			options = "none," + options
		}
		if err := (mount{"cgroup", h.Dir, "cgroup", flags, options}).make(); err != nil {
			return err
		}
	}
	return nil
}

// protect makes the machine's files and settings read-only, but for copies of some settings.
func (n Node) protect() error {
	const copies = "/run/settings"
	values := map[string]string{}
	for _, name := range n.Settings {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not in every kernel
		}
		if err != nil {
			return err
		}
		copied := filepath.Join(copies, name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(copied, value, 0o600); err != nil {
			return err
		}
		values[filepath.Join("/proc/sys", name)] = copied
	}
	if err := makeReadOnly(readOnly()...); err != nil {
		return err
	}
	for at, copied := range values {
		if err := (mount{copied, at, "", unix.MS_BIND, ""}).make(); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make the machine's files read-only: %w", err)
	}
	return nil
}
