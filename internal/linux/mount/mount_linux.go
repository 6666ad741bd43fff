package mount

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Remove unmounts what is mounted at a directory and below it, and removes the directory. What a program that is about
// to end mounts or makes there meanwhile goes, too, for a second.
func Remove(dir string) error {
	const patience, pause = time.Second, 5 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := remove(dir)
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) || time.Now().After(end) {
			return err
		}
	}
}

func remove(dir string) error {
	list, err := At(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range slices.Backward(list) {
		// EINVAL, ENOENT: it has gone with the one before it, or its program has removed it.
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
			!errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// Private keeps changes of mounts in this mount namespace from others, and mounts an empty file system at a directory.
func Private(empty string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", empty, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount an empty %s: %w", empty, err)
	}
	return nil
}

// securitySource tells the mounts of [ShowSecurity] from those of the machine.
const securitySource = "nettoll"

// securityDir is where programs look for securityfs.
const securityDir = "/sys/kernel/security"

// ShowSecurity mounts securityfs, read-only, in this mount namespace: programs see the security modules of the kernel,
// and load no profile.
func ShowSecurity() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount(securitySource, securityDir, "securityfs", flags, ""); err != nil {
		return fmt.Errorf("mount securityfs: %w", err)
	}
	// Of this mount alone: all others show the same file system.
	if err := unix.Mount("", securityDir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return errors.Join(fmt.Errorf("make securityfs read-only: %w", err), HideSecurity())
	}
	return nil
}

// HideSecurity undoes [ShowSecurity]. Another mount is left as it is.
func HideSecurity() error {
	if shown, err := SecurityShown(); err != nil || !shown {
		return err
	}
	if err := unix.Unmount(securityDir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount securityfs: %w", err)
	}
	return nil
}

// SecurityShown reports whether [ShowSecurity] was the last to mount something there.
func SecurityShown() (bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("look for securityfs: %w", err)
	}
	shown := false
	for line := range strings.Lines(string(text)) {
		place, source, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(place); len(fields) > 4 && fields[4] == securityDir {
			shown = strings.HasPrefix(source, "securityfs "+securitySource+" ")
		}
	}
	return shown, nil
}

// Cover makes a directory one whose changes are made in another directory, upper: below it, and with work in the same
// file system, overlayfs keeps what is written.
func Cover(dir, upper, work string) error {
	for _, made := range []string{upper, work} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			return err
		}
	}
	options := "lowerdir=" + dir + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("cover %s by an overlay: %w", dir, err)
	}
	return nil
}

// Uncover undoes [Cover]. A directory that is not covered is left as it is.
func Uncover(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("uncover %s: %w", dir, err)
	}
	return nil
}
