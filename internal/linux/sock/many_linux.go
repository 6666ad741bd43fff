package sock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ListenFor is Listen that keeps up to so many connections until they are accepted, as far as net.core.somaxconn lets
// it, and whose accepts do not wait.
func (s Socket) ListenFor(waiting int) error {
	if err := unix.SetNonblock(s.FD, true); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := unix.Listen(s.FD, waiting); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// BeginConnect connects a TCP socket and does not wait: when it can be written to, [Socket.Pending] says what came of
// it. The socket does not block from then on.
func (s Socket) BeginConnect(to *Address) error {
	if err := unix.SetNonblock(s.FD, true); err != nil {
		return err
	}
	if e := s.ConnectTo(to); e != 0 && e != Connecting {
		return e
	}
	return nil
}

// Pending returns and clears the error that has come to a socket (SO_ERROR).
func (s Socket) Pending() error {
	pending, err := unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && pending != 0 {
		err = unix.Errno(pending)
	}
	return err
}

// Peek is Recv that waits for nothing and takes nothing.
func (s Socket) Peek(p *byte, n int) (int, Errno) {
	return s.Recv(p, n, unix.MSG_PEEK|unix.MSG_DONTWAIT)
}
