package userns

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Missing lists the capabilities that hosts on this machine require and that this process lacks in its user namespace:
// "CAP_SYS_ADMIN", "CAP_NET_ADMIN" (capabilities(7)).
func Missing() ([]string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil, fmt.Errorf("read own capabilities: %w", err)
	}
	var missing []string
	for _, c := range []struct {
		bit  int
		name string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			missing = append(missing, c.name)
		}
	}
	return missing, nil
}

// Inside reports whether this process is in a user namespace other than the machine's first one.
func Inside() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !outer(string(data)) // a kernel without user namespaces has no such file
}

// Refused lists, in words, what the kernel does not grant to this process but would grant to the machine's root; an
// empty list if it grants everything. It tries each privilege.
func Refused() []string {
	refused := []string{}
	if err := forceBuffer(); err != nil {
		refused = append(refused, "socket buffers above net.core.rmem_max and wmem_max (SO_RCVBUFFORCE)")
	}
	if err := makeMap(); err != nil {
		refused = append(refused, "eBPF programs (bpf)")
	}
	return refused
}

// forceBuffer sets a receive buffer regardless of its limit, socket(7).
func forceBuffer() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	const some = 1 << 16 // bytes
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, some)
}

// makeMap makes the smallest eBPF map, bpf(2).
func makeMap() error {
	attr := struct{ kind, keySize, valueSize, entries uint32 }{unix.BPF_MAP_TYPE_ARRAY, 4, 4, 1}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}
