package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// A Links is /sys/class/net of one network namespace.
type Links struct{ root *os.File }

// Open opens it in the network namespace of the calling thread. A sysfs file system shows the links of the namespace in
// which it was made (fs/sysfs/mount.c, sysfs_init_fs_context). Open makes one without mounting it; it ends with the
// file. It requires CAP_SYS_ADMIN and Linux 5.2.
func Open() (*Links, error) {
	const what = "open /sys of the network namespace"
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, explain(what, err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, explain(what, err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, explain(what, err)
	}
	return &Links{root: os.NewFile(uintptr(fd), "sysfs")}, nil
}

func explain(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return &linux.UnsupportedError{What: what, Missing: "CAP_SYS_ADMIN", Hint: "run it as root", Err: err}
	case errors.Is(err, unix.ENOSYS):
		return &linux.UnsupportedError{What: what, Missing: "fsopen(2)", Hint: "use Linux 5.2 or newer", Err: err}
	case errors.Is(err, unix.ENODEV):
		return &linux.UnsupportedError{What: what, Missing: "sysfs", Hint: "use a kernel with CONFIG_SYSFS", Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Close closes it.
func (l *Links) Close() { _ = l.root.Close() }

// Read reads an attribute of a link, "queues/rx-0/rps_cpus", without surrounding spaces. If it does not exist, the
// error is fs.ErrNotExist.
func (l *Links) Read(link, attribute string) (string, error) {
	f, err := l.open(link, attribute, unix.O_RDONLY)
	if err != nil {
		return "", fmt.Errorf("read %s of link %q: %w", attribute, link, err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return "", fmt.Errorf("read %s of link %q: %w", attribute, link, reason(err))
	}
	return strings.TrimSpace(string(data)), nil
}

// Write sets an attribute of a link. If it does not exist, the error is fs.ErrNotExist.
func (l *Links) Write(link, attribute, value string) error {
	f, err := l.open(link, attribute, unix.O_WRONLY)
	if err == nil {
		_, err = f.WriteString(value)
		err = reason(errors.Join(err, f.Close()))
	}
	if err != nil {
		return fmt.Errorf("write %q to %s of link %q: %w", value, attribute, link, err)
	}
	return nil
}

// List lists the contents of a directory of a link: "queues".
func (l *Links) List(link, directory string) ([]string, error) {
	f, err := l.open(link, directory, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("list %s of link %q: %w", directory, link, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s of link %q: %w", directory, link, reason(err))
	}
	return names, nil
}

func (l *Links) open(link, path string, flags int) (*os.File, error) {
	if link == "" || link == "." || link == ".." || strings.ContainsAny(link, "/\x00") {
		return nil, fmt.Errorf("invalid link name %q", link)
	}
	fd, err := unix.Openat(int(l.root.Fd()), "class/net/"+link+"/"+path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// reason removes the path, which the rest of the error already shows. If a link is removed while its attribute is open,
// the attribute counts as missing.
func reason(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return fs.ErrNotExist
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// CPUs returns the online CPUs as a list: "0-1" (Documentation/admin-guide/cputopology.rst).
func (l *Links) CPUs() (string, error) {
	fd, err := unix.Openat(int(l.root.Fd()), "devices/system/cpu/online", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("read which CPUs are online: %w", err)
	}
	f := os.NewFile(uintptr(fd), "online")
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return "", fmt.Errorf("read which CPUs are online: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
