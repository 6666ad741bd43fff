package thread

import "golang.org/x/sys/unix"

// Prompt makes the calling thread run as soon as it has something to do, before all threads with ordinary priorities
// (SCHED_FIFO, sched(7)), like the kernel's own packet processing. Without the privilege, it changes nothing.
func Prompt() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}
