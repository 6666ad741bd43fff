//go:build !linux

package sock

import "syscall"

// ListenFor is not supported here.
func (Socket) ListenFor(int) error { return unsupported("listen") }

// BeginConnect is not supported here.
func (Socket) BeginConnect(*Address) error { return unsupported("connect") }

// Pending is not supported here.
func (Socket) Pending() error { return unsupported("read the error of a socket") }

// Peek is not supported here.
func (Socket) Peek(p *byte, n int) (int, Errno) { return 0, syscall.ENOTSUP }
