package sock

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// SendRaw sends a packet unchanged from the calling thread's network namespace. An IPv4 packet includes its header,
// whose length, checksum and empty fields the kernel fills in. An IPv6 packet is what follows the header, beginning
// with a fragment header (RFC 8200, section 4.5). It requires CAP_NET_RAW.
func SendRaw(to netip.Addr, packet []byte) (err error) {
	family, protocol := unix.AF_INET6, unix.IPPROTO_FRAGMENT
	var address unix.Sockaddr = &unix.SockaddrInet6{Addr: to.As16()}
	if to.Is4() {
		family, protocol = unix.AF_INET, unix.IPPROTO_RAW
		address = &unix.SockaddrInet4{Addr: to.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return fmt.Errorf("open a raw socket: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.Sendto(fd, packet, 0, address); err != nil {
		return fmt.Errorf("send a raw packet to %s: %w", to, err)
	}
	return nil
}
