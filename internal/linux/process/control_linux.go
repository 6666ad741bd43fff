package process

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Control returns both ends of a socket through which a process controls a child. The child's end becomes its standard
// input; the caller closes it once the child has started.
func Control() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	own := os.NewFile(uintptr(fds[0]), "control")
	theirs = os.NewFile(uintptr(fds[1]), "control")
	ours, err = net.FileConn(own)
	_ = own.Close() // the connection has a copy
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("make a control socket: %w", err)
	}
	return ours, theirs, nil
}
