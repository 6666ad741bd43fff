package owned

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HoldSocket holds a unix socket at which another process listens, so that clients reach it when its path has been
// removed. They connect to the returned address while the file is open: it names the descriptor, and the kernel finds
// the socket by its inode (unix_find_bsd, net/unix/af_unix.c).
func HoldSocket(path string) (f *os.File, address string, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, "", &os.PathError{Op: "hold socket", Path: path, Err: err}
	}
	f = os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && info.Mode()&os.ModeSocket == 0 {
		err = &Error{path, "is not a socket"}
	}
	if err == nil {
		err = mine(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, "", err
	}
	return f, fmt.Sprintf("/proc/self/fd/%d", fd), nil
}
