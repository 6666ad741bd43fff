//go:build !linux

package sock

import "net/netip"

// Packets is not supported here.
func Packets(bool, string) (Socket, error) { return Socket{}, unsupported("send packets") }

// Hear is not supported here.
func Hear(bool, int) (Socket, error) { return Socket{}, unsupported("hear packets") }

// SendPacket is not supported here.
func (Socket) SendPacket(netip.AddrPort, []byte) (bool, error) {
	return false, unsupported("send packets")
}

// Plain is not supported here.
func Plain(int, netip.AddrPort, string) (Socket, error) {
	return Socket{}, unsupported("send messages")
}
