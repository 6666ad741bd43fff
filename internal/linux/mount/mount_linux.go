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
