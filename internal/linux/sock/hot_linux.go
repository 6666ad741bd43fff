package sock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Errors of Send and Recv, for loops that cannot import the kernel's own names.
const (
	Again       = unix.EAGAIN       // the socket timeout passed, or DontWait found nothing
	Interrupted = unix.EINTR        // a signal arrived: call again
	Refused     = unix.ECONNREFUSED // an ICMP port unreachable arrived: nobody listens there (yet, or any more)
)

// Flags of Send and Recv.
const (
	DontWait = unix.MSG_DONTWAIT
	NoSignal = unix.MSG_NOSIGNAL // a broken stream is an error, not SIGPIPE
)

// Send is send(2) on n bytes at p. It does not allocate and has no point at which the Go scheduler could take the
// thread. The caller's goroutine must be locked to its thread, because the runtime does not know that the call may
// block.
//
//go:nosplit
func (s Socket) Send(p *byte, n int, flags int) (int, Errno) {
	r, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.FD), uintptr(unsafe.Pointer(p)), uintptr(n), uintptr(flags), 0,
		0)
	return int(r), e
}

// Recv is recv(2) of up to n bytes to p. The conditions of Send apply.
//
//go:nosplit
func (s Socket) Recv(p *byte, n int, flags int) (int, Errno) {
	r, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.FD), uintptr(unsafe.Pointer(p)), uintptr(n), uintptr(flags),
		0, 0)
	return int(r), e
}

// Drain takes the messages that wait in a datagram socket, and returns their number. An error from an ICMP message
// comes before them, and does not end Drain.
func (s Socket) Drain() (messages int64) {
	for {
		var b [1]byte // the rest of a message is discarded (recv(2))
		switch _, errno := s.Recv(&b[0], len(b), DontWait); errno {
		case 0:
			messages++
		case Interrupted, Refused:
		default:
			return messages
		}
	}
}

// WaitRecv sleeps until there is something to receive, including an error of the socket, for at most this many
// nanoseconds. It is accurate to the microsecond, while the timeout of [Socket.SetTimeout] counts ticks (ppoll(2)). The
// conditions of Send apply; a signal ends it early.
//
//go:nosplit
func (s Socket) WaitRecv(ns int64) {
	poll := unix.PollFd{Fd: int32(s.FD), Events: unix.POLLIN}
	limit := unix.NsecToTimespec(ns)
	_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
}

// RecvParked is Recv for goroutines that are not locked to a thread: the Go scheduler knows that the call may block.
func (s Socket) RecvParked(buf []byte) (int, Errno) {
	r, _, e := unix.Syscall6(unix.SYS_RECVFROM, uintptr(s.FD), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0,
		0)
	return int(r), e
}
