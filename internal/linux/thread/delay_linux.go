package thread

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// Delay returns how long the calling thread has been ready to run without having a CPU, in nanoseconds: the second number of its schedstat
// (Documentation/scheduler/sched-stats.rst). It is 0 where the kernel does not say.
func Delay() int64 {
	fd, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	var buf [96]byte                      // three numbers of 20 digits
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(buf[:n], []byte(" "))
	number, _, _ := bytes.Cut(rest, []byte(" "))
	ns, _ := strconv.ParseInt(string(number), 10, 64)
	return ns
}
