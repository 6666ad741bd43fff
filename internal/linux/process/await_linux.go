package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Await returns a channel that is closed when a process is gone that need not be a child.
func Await(pid int) (<-chan struct{}, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer unix.Close(fd)
		for { // a pidfd becomes readable when the process ends (pidfd_open(2))
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); n > 0 || err != unix.EINTR {
				return
			}
		}
	}()
	return done, nil
}
