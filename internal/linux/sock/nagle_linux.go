package sock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Nagle switches Nagle's algorithm (RFC 896) on or off in a loop: see [Socket.Send]. When it is switched off, held-back
// data is sent at once (__tcp_sock_set_nodelay, net/ipv4/tcp.c).
//
//go:nosplit
func (s Socket) Nagle(on bool) {
	off := int32(1)
	if on {
		off = 0
	}
	// It fails if this is not a stream, or no longer a socket. The next call reports that.
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(s.FD), unix.IPPROTO_TCP, unix.TCP_NODELAY,
		uintptr(unsafe.Pointer(&off)), unsafe.Sizeof(off), 0)
}
