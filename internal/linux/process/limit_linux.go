package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mostFiles is how many files this process may have open. To read it in /proc takes one more.
func mostFiles() uint64 {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // of this resource it does not fail
	return limit.Cur
}

// LimitMemory lets this process have so many bytes of memory of its own at most: what the kernel counts as data
// (RLIMIT_DATA, setrlimit(2); mm/mmap.c: may_expand_vm), which holds the heap and the stacks of a Go program, and no
// address space that it only reserves. An allocation beyond it is fatal to a Go program.
func LimitMemory(bytes int64) error {
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("limit memory to %d bytes: %w", bytes, err)
	}
	return nil
}
