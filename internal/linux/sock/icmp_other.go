//go:build !linux

package sock

import "net/netip"

// Ping is not supported here.
func Ping(_, _ netip.AddrPort) (Socket, bool, error) {
	return Socket{FD: -1}, false, unsupported("send ICMP echo requests")
}
