package sock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// atOnce is the largest number of ready sockets that one call of [Watcher.Wait] finds.
const atOnce = 64

// A Watcher waits for many sockets at once (epoll(7)), for input and, if requested, for room to send: its cost does not
// grow with their number.
type Watcher struct {
	epoll  Socket
	events [atOnce]unix.EpollEvent
	old    bool // the kernel has no epoll_pwait2 (Linux 5.11)
}

// NewWatcher returns a Watcher without sockets.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("wait for sockets: %w", err)
	}
	return &Watcher{epoll: Socket{FD: fd}}, nil
}

// Add watches a socket for input and, with output, for room to send. Events identify it by number.
func (w *Watcher) Add(number int, s Socket, output bool) error {
	if e := w.control(unix.EPOLL_CTL_ADD, number, s, output); e != 0 {
		return fmt.Errorf("wait for socket %d: %w", number, e)
	}
	return nil
}

// Output sets whether a socket is watched for room to send. The conditions of [Socket.Send] apply.
//
//go:nosplit
func (w *Watcher) Output(number int, s Socket, on bool) { w.control(unix.EPOLL_CTL_MOD, number, s, on) }

// Forget stops watching a socket. (A closed socket is forgotten by itself.)
//
//go:nosplit
func (w *Watcher) Forget(s Socket) { w.control(unix.EPOLL_CTL_DEL, 0, s, false) }

//go:nosplit
func (w *Watcher) control(op uintptr, number int, s Socket, output bool) Errno {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)}
	if output {
		event.Events |= unix.EPOLLOUT
	}
	_, _, e := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(w.epoll.FD), op, uintptr(s.FD),
		uintptr(unsafe.Pointer(&event)), 0, 0)
	return e
}

// Wait sleeps until a socket is ready, for at most this many nanoseconds, and returns the number of ready sockets. The
// conditions of [Socket.Send] apply; a signal ends it early.
//
//go:nosplit
func (w *Watcher) Wait(ns int64) int {
	if w.old {
		if ns > 0 {
			w.epoll.WaitRecv(ns)
		}
		ns = 0
	}
	limit := unix.NsecToTimespec(ns)
	var n uintptr
	var e Errno
	if ns > 0 {
		n, _, e = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epoll.FD), uintptr(unsafe.Pointer(&w.events)), atOnce,
			uintptr(unsafe.Pointer(&limit)), 0, 0)
		w.old = e == unix.ENOSYS
	} else {
		n, _, e = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(w.epoll.FD), uintptr(unsafe.Pointer(&w.events)), atOnce, 0,
			0, 0)
	}
	if e != 0 {
		return 0
	}
	return int(n)
}

// Event returns the number of the k-th socket that Wait has found, and what it is ready for. A socket that is over can
// be read and written: the call then returns the reason.
//
//go:nosplit
func (w *Watcher) Event(k int) (number int, read, write bool) {
	event := &w.events[k]
	const over = unix.EPOLLHUP | unix.EPOLLERR
	return int(event.Fd), event.Events&(unix.EPOLLIN|over) != 0, event.Events&(unix.EPOLLOUT|over) != 0
}

// Close releases the sockets and leaves them open.
func (w *Watcher) Close() { w.epoll.Close() }
