package rooted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// Resolve returns the path of a file below an open root directory without symbolic links, all of which lead to files
// below that directory. The error is a [linux.UnsupportedError] before Linux 5.6.
func Resolve(root *os.File, path string) (string, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	fd, err := unix.Openat2(int(root.Fd()), path, &how)
	if errors.Is(err, unix.ENOSYS) {
		return "", &linux.UnsupportedError{
			What: fmt.Sprintf("find %q on the machine", path), Missing: "openat2", Hint: "Linux 5.6 or newer", Err: err,
		}
	}
	if err != nil {
		return "", &fs.PathError{Op: "find", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var paths [2]string
	for i, of := range []int{fd, int(root.Fd())} {
		if paths[i], err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", of)); err != nil {
			return "", err
		}
	}
	below, err := filepath.Rel(paths[1], paths[0])
	return filepath.Join("/", below), err
}
