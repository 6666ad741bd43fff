package sock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// OnlyOutput watches a socket for room to send and not for input: no more requests are read from a peer that does not
// take its answers. [Watcher.Output] ends it.
//
//go:nosplit
func (w *Watcher) OnlyOutput(number int, s Socket) {
	event := unix.EpollEvent{Events: unix.EPOLLOUT, Fd: int32(number)}
	_, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(w.epoll.FD), unix.EPOLL_CTL_MOD, uintptr(s.FD),
		uintptr(unsafe.Pointer(&event)), 0, 0)
}
