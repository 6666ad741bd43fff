package shm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Create makes size bytes of zeroed memory, which exists as long as a process holds its file or a mapping of it. Pass
// the file to a child and [Map] it there.
func Create(name string, size int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create shared memory %q: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(int64(size)); err != nil {
		f.Close()
		return nil, fmt.Errorf("size shared memory %q to %d bytes: %w", name, size, err)
	}
	// No process may truncate the file while another has mapped it.
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal shared memory %q: %w", name, err)
	}
	return f, nil
}

// Map maps the whole file for reading and writing. [Unmap] ends it; the file itself may be closed before.
func Map(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("size of shared memory: %w", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", info.Size(), err)
	}
	return mem, nil
}

// Unmap ends a mapping made by [Map].
func Unmap(mem []byte) error { return unix.Munmap(mem) }
