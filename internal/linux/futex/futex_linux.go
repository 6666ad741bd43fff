package futex

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2), from include/uapi/linux/futex.h. They have no FUTEX_PRIVATE_FLAG, because the words are in
// memory that processes share.
const (
	opWait = 0
	opWake = 1

	opWaitBitset = 9          // like opWait, with an absolute time
	matchAny     = 0xffffffff // FUTEX_BITSET_MATCH_ANY
)

// Wait sleeps until [Wake] is called for the word, or timeout has passed (0: no limit). It returns nil at once if *word
// is not val, and may return nil without a reason, so callers check the word and wait again. The Go scheduler knows
// that the thread sleeps.
func Wait(word *uint32, val uint32, timeout time.Duration) error {
	var ts *unix.Timespec
	if timeout > 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait, uintptr(val),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	return waitError(errno)
}

// WaitUntil is like Wait, but with a deadline on CLOCK_MONOTONIC in nanoseconds. It is for brief waits on a thread that
// is locked to its goroutine, because the Go scheduler does not know that the thread sleeps. A signal does not make it
// longer.
func WaitUntil(word *uint32, val uint32, deadline int64) error {
	t := unix.NsecToTimespec(deadline)
	_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWaitBitset, uintptr(val),
		uintptr(unsafe.Pointer(&t)), 0, matchAny)
	return waitError(errno)
}

func waitError(errno unix.Errno) error {
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR:
		return nil
	case unix.ETIMEDOUT:
		return ErrTimeout
	}
	return errno
}

// Wake wakes up to n threads that wait on the word.
func Wake(word *uint32, n int) {
	// The call fails only for an address that is not mapped or not aligned, which cannot happen with a *uint32.
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake, uintptr(n), 0, 0, 0)
}
