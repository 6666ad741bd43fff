package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Streams returns copies of the descriptors of TCP sockets of the program and its child processes that do not listen.
// It leaves out those whose names, such as "socket:[26583]" (proc_pid_fd(5)), are in known, and adds the names to
// known. It includes MPTCP sockets, with which Go listens. The caller closes the copies.
func (c *Child) Streams(known map[string]bool) (fds []int, err error) { return c.sockets(known, 0) }

// Listening does the same for sockets that listen.
func (c *Child) Listening() (fds []int, err error) { return c.sockets(map[string]bool{}, 1) }

func (c *Child) sockets(known map[string]bool, listening int) (fds []int, err error) {
	for _, pid := range family(c.pid) {
		pidfd := c.pidfd
		if pid != c.pid {
			if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
				continue // it has ended
			}
		}
		of, err := sockets(pid, pidfd, known, listening)
		if pid != c.pid {
			_ = unix.Close(pidfd)
		}
		fds = append(fds, of...)
		if err != nil && (pid == c.pid || !errors.Is(err, fs.ErrNotExist)) { // a child process may have ended
			return fds, err
		}
	}
	return fds, nil
}

// sockets returns copies of the sockets of one process.
func sockets(pid, pidfd int, known map[string]bool, listening int) (fds []int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for sockets: %w", err)
	}
	for _, e := range entries {
		name, err := os.Readlink(dir + "/" + e.Name())
		if errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(name, "socket:") || known[name] {
			continue
		}
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fd, err := unix.PidfdGetfd(pidfd, number, 0)
		if errors.Is(err, unix.EBADF) || errors.Is(err, unix.ESRCH) {
			continue // it is closed, or the program has ended
		}
		if err != nil {
			return fds, fmt.Errorf("copy %s of process %d: %w", name, pid, err)
		}
		protocol, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
		listens, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if protocol != unix.IPPROTO_TCP && protocol != unix.IPPROTO_MPTCP || listens != listening {
			_ = unix.Close(fd)
			continue
		}
		known[name] = true
		fds = append(fds, fd)
	}
	return fds, nil
}
