package sock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ListenFor is Listen with a larger queue of connections that wait to be accepted, up to net.core.somaxconn, and with
// accepts that do not wait.
func (s Socket) ListenFor(waiting int) error {
	if err := unix.SetNonblock(s.FD, true); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := unix.Listen(s.FD, waiting); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// BeginConnect connects a TCP socket and does not wait: when the socket is writable, [Socket.Pending] returns the
// result. The socket does not block from then on.
func (s Socket) BeginConnect(to *Address) error {
	if err := unix.SetNonblock(s.FD, true); err != nil {
		return err
	}
	if e := s.ConnectTo(to); e != 0 && e != Connecting {
		return e
	}
	return nil
}

// Pending returns and clears the pending error of a socket (SO_ERROR).
func (s Socket) Pending() error {
	pending, err := unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && pending != 0 {
		err = unix.Errno(pending)
	}
	return err
}

// Peek is Recv that does not wait and does not remove the data.
func (s Socket) Peek(p *byte, n int) (int, Errno) {
	return s.Recv(p, n, unix.MSG_PEEK|unix.MSG_DONTWAIT)
}
