//go:build !linux

package sock

import "net/netip"

// Packets is not supported here.
func Packets(bool, string) (Socket, error) { return Socket{}, unsupported("send packets") }

// Hear is not supported here.
func Hear(bool, int) (Socket, error) { return Socket{}, unsupported("hear packets") }

// SendPacket is not supported here.
func (Socket) SendPacket(netip.Addr, []byte) (bool, error) { return false, unsupported("send packets") }
