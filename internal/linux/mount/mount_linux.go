package mount

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Remove unmounts what is mounted at a directory and below it, and removes the directory.
func Remove(dir string) error {
	list, err := At(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range slices.Backward(list) {
		// EINVAL: it has gone with the one before it.
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
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
