//go:build !linux

package sock

import "net/netip"

// UDPShared is not supported here.
func UDPShared(_, _ []netip.AddrPort) ([]Socket, error) {
	return nil, unsupported("open datagram sockets")
}
