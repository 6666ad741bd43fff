package sock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Several waits for many sockets at once (epoll(7)): its cost does not grow with their number.
type Several struct{ epoll Socket }

// NewSeveral returns a Several for the given sockets. [Several.Next] identifies them by their position in the list.
func NewSeveral(list []Socket) (Several, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return Several{Socket{FD: -1}}, fmt.Errorf("wait for %d sockets: %w", len(list), err)
	}
	s := Several{Socket{FD: fd}}
	for i, one := range list {
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, one.FD,
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}); err != nil {
			s.Close()
			return Several{Socket{FD: -1}}, fmt.Errorf("wait for %d sockets: %w", len(list), err)
		}
	}
	return s, nil
}

// Next returns the position of a socket with something to receive; -1 if there is none. The conditions of Send apply.
//
//go:nosplit
func (s Several) Next() int {
	var event unix.EpollEvent
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll.FD), uintptr(unsafe.Pointer(&event)), 1, 0, 0, 0)
	if e != 0 || n != 1 {
		return -1
	}
	return int(event.Fd)
}

// Wait sleeps until one of the sockets has something to receive, for at most this many nanoseconds. See
// [Socket.WaitRecv].
//
//go:nosplit
func (s Several) Wait(ns int64) { s.epoll.WaitRecv(ns) }

// Close releases the sockets and leaves them open.
func (s Several) Close() { s.epoll.Close() }
