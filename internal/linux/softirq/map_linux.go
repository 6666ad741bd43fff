package softirq

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Map maps the slots of the first cpus CPUs from the probe's file. The file may be closed afterwards.
func Map(f *os.File, cpus int) (*Times, error) {
	if cpus <= 0 {
		return nil, fmt.Errorf("map the times of softirqs: of %d CPUs", cpus)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, cpus*int(SlotSize), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the times of softirqs of %d CPUs: %w", cpus, err)
	}
	return &Times{mem: mem, slots: unsafe.Slice((*Slot)(unsafe.Pointer(&mem[0])), cpus)}, nil
}

// Close ends the mapping.
func (t *Times) Close() error {
	t.slots = nil
	return unix.Munmap(t.mem)
}
