package sock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ZeroCopy is a flag of Send: the kernel sends from the caller's memory, which must not change until the send is
// completed (see [Reaper]).
const ZeroCopy = unix.MSG_ZEROCOPY

// NoRoom is the error of Send with ZeroCopy if completions use all their memory (net.core.optmem_max), or if sends that
// are not completed have pinned all the memory that may be pinned (RLIMIT_MEMLOCK, without CAP_IPC_LOCK). Reap some,
// and call again (Documentation/networking/msg_zerocopy.rst, "Transmission").
const NoRoom = unix.ENOBUFS

// SetZeroCopy allows sends with ZeroCopy.
func (s Socket) SetZeroCopy() error {
	if err := unix.SetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
		return fmt.Errorf("switch zero copy on: %w", err)
	}
	return nil
}

// A Reaper takes completions of sends with ZeroCopy from the error queues of sockets. [NewReaper] makes it, and it must
// not be copied.
type Reaper struct {
	msg     unix.Msghdr
	control [completionSize]byte
}

// completionSize is the size of the control message of a completion: header, sock_extended_err and an IPv6 address,
// aligned (put_cmsg of ip_recv_error and ipv6_recv_error).
const completionSize = 128

// NewReaper returns a reaper.
func NewReaper() *Reaper {
	r := new(Reaper)
	r.msg.Control = &r.control[0]
	return r
}

// Reap takes one notification from the error queue of a socket. It returns how many sends are completed, and for how
// many of them the kernel has copied the data after all. The kernel does so if both ends are on one machine. Without a
// notification, it returns 0 sends. The conditions of [Socket.Send] apply.
//
//go:nosplit
func (r *Reaper) Reap(s Socket) (sends, copied uint32) {
	r.msg.SetControllen(completionSize)
	_, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.FD), uintptr(unsafe.Pointer(&r.msg)),
		unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	const header = unix.SizeofCmsghdr
	if e != 0 || int(r.msg.Controllen) < header+int(unsafe.Sizeof(unix.SockExtendedErr{})) {
		return 0, 0
	}
	told := (*unix.SockExtendedErr)(unsafe.Pointer(&r.control[header]))
	if told.Origin != unix.SO_EE_ORIGIN_ZEROCOPY || told.Errno != 0 {
		return 0, 0
	}
	sends = told.Data - told.Info + 1 // a range of numbers, both ends included, that may wrap around
	if told.Code&unix.SO_EE_CODE_ZEROCOPY_COPIED != 0 {
		copied = sends
	}
	return sends, copied
}
