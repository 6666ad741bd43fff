package sock

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// SendWhole sends a packet with its header from the calling thread's network namespace, whatever its source address is.
// It takes CAP_NET_RAW.
func SendWhole(to netip.Addr, packet []byte) (err error) {
	family := unix.AF_INET6
	var address unix.Sockaddr = &unix.SockaddrInet6{Addr: to.As16()}
	if to.Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Addr: to.As4()}
	}
	// With this protocol the header is the sender's in both families (net/ipv4/af_inet.c, net/ipv6/af_inet6.c).
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("open a raw socket: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := unix.Sendto(fd, packet, 0, address); err != nil {
		return fmt.Errorf("send a packet to %s: %w", to, err)
	}
	return nil
}
