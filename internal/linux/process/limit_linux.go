package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mostFiles returns how many files this process may have open. Reading it from /proc would need one more.
func mostFiles() uint64 {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it cannot fail for this resource
	return limit.Cur
}

// LimitMemory limits this process's own memory to this many bytes: what the kernel counts as data (RLIMIT_DATA,
// setrlimit(2); mm/mmap.c: may_expand_vm). That includes the heap and the stacks of a Go program, but not address space
// that it only reserves. An allocation beyond the limit is fatal to a Go program. What the race detector needs comes on
// top.
func LimitMemory(bytes int64) error {
	most := uint64(bytes) * detector
	limit := unix.Rlimit{Cur: most, Max: most}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("limit memory to %d bytes: %w", bytes, err)
	}
	return nil
}
