package thread

import "golang.org/x/sys/unix"

// Prompt has the calling thread run as soon as it has something to do, before all threads with ordinary priorities
// (SCHED_FIFO, sched(7)), as the kernel's own handling of packets does. Without the right to that nothing changes.
func Prompt() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}
