package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// readOnly lists what a host may read but not change: kernel settings that all namespaces share
// (Documentation/admin-guide/sysctl, including kernel.core_pattern) and machine-wide controls. Settings of the network
// namespace, in /proc/sys/net and the links in /sys, are writable.
func readOnly() []string {
	return []string{
		"/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/fs", "/proc/sysrq-trigger", "/proc/irq",
		"/sys/kernel", "/sys/module", "/sys/power", "/sys/devices/system",
	}
}

// devices lists the contents of a host's /dev: stateless files, terminals, and what makes network devices. It leaves
// out everything else, including block devices, memory and the kernel log. What the machine lacks, the host lacks too.
func devices() []string {
	return []string{
		"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "net", "vhost-net", "ppp", "fuse",
		"kvm",
	}
}

// newDev is the directory in which a host's own /dev is assembled.
const newDev = "/run/dev"

// mask removes from a host, whose mounts are its own, parts of the machine that no network needs. Root in the host can
// mount them again: mask prevents accidents, not attacks by root.
func mask() error {
	if err := makeReadOnly(readOnly()...); err != nil {
		return err
	}
	if err := furnishDev(); err != nil {
		return fmt.Errorf("make a /dev with few devices: %w", err)
	}
	return nil
}

// makeReadOnly makes files and directories read-only in this mount namespace. It leaves out what does not exist.
func makeReadOnly(paths ...string) error {
	for _, path := range paths {
		err := unix.Mount(path, path, "", unix.MS_BIND, "")
		if errors.Is(err, unix.ENOENT) {
			continue // not in every kernel
		}
		if err == nil {
			err = unix.Mount("", path, "",
				unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}
		if err != nil {
			return fmt.Errorf("make %s read-only: %w", path, err)
		}
	}
	return nil
}

// furnishDev replaces /dev.
func furnishDev() error {
	if err := os.Mkdir(newDev, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", newDev, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	for _, name := range devices() {
		from, to := filepath.Join("/dev", name), filepath.Join(newDev, name)
		info, err := os.Stat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = os.Mkdir(to, 0o755)
		} else {
			err = os.WriteFile(to, nil, 0o644)
		}
		if err != nil {
			return err
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2",
	} {
		if err := os.Symlink(target, filepath.Join(newDev, name)); err != nil {
			return err
		}
	}
	shm := filepath.Join(newDev, "shm")
	if err := os.Mkdir(shm, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(shm, 0o777|fs.ModeSticky); err != nil {
		return err
	}
	if err := unix.Mount(newDev, "/dev", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return os.Remove(newDev)
}
