package sock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Poller waits for several sockets at once (ppoll(2)).
type Poller struct{ fds []unix.PollFd }

// NewPoller returns a poller for n sockets. It watches none of them yet.
func NewPoller(n int) *Poller {
	p := &Poller{fds: make([]unix.PollFd, n)}
	for i := range p.fds {
		p.fds[i].Fd = -1 // ppoll skips it
	}
	return p
}

// Watch sets what to wait for at socket number i: until it can be read, written, or both or, with neither, until its
// error queue has something.
//
//go:nosplit
func (p *Poller) Watch(i int, s Socket, read, write bool) {
	fd := &p.fds[i]
	fd.Fd, fd.Events = int32(s.FD), 0
	if read {
		fd.Events |= unix.POLLIN
	}
	if write {
		fd.Events |= unix.POLLOUT
	}
}

// Wait sleeps until one of the sockets is ready, for at most this many nanoseconds. The conditions of [Socket.Send]
// apply; a signal ends it early.
//
//go:nosplit
func (p *Poller) Wait(ns int64) {
	limit := unix.NsecToTimespec(ns)
	var at unsafe.Pointer
	if len(p.fds) > 0 {
		at = unsafe.Pointer(&p.fds[0])
	}
	_, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(at), uintptr(len(p.fds)), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if e != 0 {
		for i := range p.fds {
			p.fds[i].Revents = 0 // they belong to an earlier call
		}
	}
}

// Ready reports whether socket number i could be read or written when Wait returned, and whether its error queue had
// something. A connection that is over can be read and written: the call then returns the reason.
//
//go:nosplit
func (p *Poller) Ready(i int) (read, write, told bool) {
	got := p.fds[i].Revents
	over := got&(unix.POLLHUP|unix.POLLNVAL) != 0
	return over || got&unix.POLLIN != 0, over || got&unix.POLLOUT != 0, got&unix.POLLERR != 0
}
