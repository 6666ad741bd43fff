package sock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ZeroCopy is a flag of Send: the kernel sends from the caller's memory, which must not change until the send is
// completed (see [Reaper]).
const ZeroCopy = unix.MSG_ZEROCOPY

// NoRoom is what Send returns with ZeroCopy where completions have taken all memory that they may
// (net.core.optmem_max), or what is not completed all that may be pinned (RLIMIT_MEMLOCK, without CAP_IPC_LOCK): reap
// some, and call again (Documentation/networking/msg_zerocopy.rst, "Transmission").
const NoRoom = unix.ENOBUFS

// SetZeroCopy allows sends with ZeroCopy.
func (s Socket) SetZeroCopy() error {
	if err := unix.SetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
		return fmt.Errorf("switch zero copy on: %w", err)
	}
	return nil
}

// A Reaper takes completions of sends with ZeroCopy from sockets' error queues. It is made by [NewReaper] and must not
// be copied.
type Reaper struct {
	msg     unix.Msghdr
	control [completionSize]byte
}

// completionSize holds the control message of a completion: header, sock_extended_err and an IPv6 address, aligned
// (put_cmsg of ip_recv_error and ipv6_recv_error).
const completionSize = 128

// NewReaper returns a reaper.
func NewReaper() *Reaper {
	r := new(Reaper)
	r.msg.Control = &r.control[0]
	return r
}

// Reap takes one notification from the error queue of a socket: how many sends it says are completed, and how many of
// those the kernel has made by copying all the same, as it does where both ends are on one machine. Without one it
// returns no sends. The same conditions hold as for [Socket.Send].
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
	sends = told.Data - told.Info + 1 // a range, both ends included, of numbers that wrap around
	if told.Code&unix.SO_EE_CODE_ZEROCOPY_COPIED != 0 {
		copied = sends
	}
	return sends, copied
}
