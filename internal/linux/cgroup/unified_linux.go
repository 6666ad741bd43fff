package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Unified is the hierarchy of cgroup v2, opened whether or not it can be seen in this mount namespace.
type Unified struct{ root int }

// OpenUnified opens it by a mount that has no place (fsmount(2)). The error is [errors.ErrUnsupported] if the kernel
// has none or this process may not mount it.
func OpenUnified() (*Unified, error) {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err == nil {
		defer unix.Close(fs)
		err = unix.FsconfigCreate(fs)
	}
	if err == nil {
		var u Unified
		if u.root, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0); err == nil {
			return &u, nil
		}
	}
	for _, none := range []error{unix.ENODEV, unix.EPERM, unix.ENOSYS, unix.EACCES} {
		if errors.Is(err, none) {
			err = errors.Join(errors.ErrUnsupported, err)
		}
	}
	return nil, fmt.Errorf("open the hierarchy of cgroup v2: %w", err)
}

// Open opens the directory of a group.
func (u *Unified) Open(group string) (*os.File, error) {
	path := "." + filepath.Clean("/"+group)
	fd, err := unix.Openat(u.root, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open cgroup", Path: group, Err: err}
	}
	return os.NewFile(uintptr(fd), group), nil
}

// Close closes it.
func (u *Unified) Close() error { return unix.Close(u.root) }

// InUnified lists the groups of cgroup v2 that these processes of /proc are in, each once. One that has ended has none.
func InUnified(pids ...int) (groups []string) {
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if group, ok := strings.CutPrefix(line, "0::"); ok {
				groups = append(groups, strings.TrimSuffix(group, "\n"))
			}
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}
