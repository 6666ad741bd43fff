package sock

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// UDPShared opens a datagram socket from each local address to the remote address at the same position, like [UDP].
// Local addresses may be equal: the kernel delivers each datagram to the socket that is connected to its source
// (compute_score, net/ipv4/udp.c). No other socket can receive it.
func UDPShared(local, remote []netip.AddrPort) (list []Socket, err error) {
	defer func() {
		if err != nil {
			for _, s := range list {
				s.Close()
			}
			list = nil
		}
	}()
	for i, at := range local {
		s, err := open(at, unix.SOCK_DGRAM, true)
		if err != nil {
			return list, err
		}
		list = append(list, s)
		if err := unix.Connect(s.FD, sockaddr(remote[i])); err != nil {
			return list, fmt.Errorf("connect udp %s to %s: %w", at, remote[i], err)
		}
	}
	// a socket that shares an address with an exclusive one is refused (udp_lib_lport_inuse, net/ipv4/udp.c)
	for i, s := range list {
		if err := unix.SetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0); err != nil {
			return list, fmt.Errorf("keep %s from being shared: %w", local[i], err)
		}
	}
	return list, nil
}
