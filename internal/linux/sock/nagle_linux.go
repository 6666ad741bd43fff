package sock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Nagle switches Nagle's algorithm (RFC 896) on or off, in a loop: see [Socket.Send]. Switched off, it lets what it has
// held back go at once (__tcp_sock_set_nodelay, net/ipv4/tcp.c).
//
//go:nosplit
func (s Socket) Nagle(on bool) {
	off := int32(1)
	if on {
		off = 0
	}
	// It fails if this is not a stream, or not a socket any more. The next call says so.
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(s.FD), unix.IPPROTO_TCP, unix.TCP_NODELAY,
		uintptr(unsafe.Pointer(&off)), unsafe.Sizeof(off), 0)
}
