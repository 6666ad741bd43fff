package thread

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Delay returns how long the calling thread has been ready to run without a CPU, in nanoseconds: the second number of
// its schedstat (Documentation/scheduler/sched-stats.rst). It is 0 if the kernel does not report it. It takes a few
// microseconds and allocates nothing.
func Delay() int64 {
	path := []byte("/proc/thread-self/schedstat\x00")
	here := unix.AT_FDCWD
	fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(here), uintptr(unsafe.Pointer(&path[0])),
		unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return 0
	}
	var buf [96]byte // three numbers of 20 digits
	n, _, e := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&buf)), uintptr(len(buf)))
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0) // it was only read
	if e != 0 {
		return 0
	}
	i, ns := 0, int64(0)
	for i < int(n) && buf[i] != ' ' {
		i++
	}
	for i++; i < int(n) && buf[i] >= '0' && buf[i] <= '9'; i++ {
		ns = 10*ns + int64(buf[i]-'0')
	}
	return ns
}
