//go:build !linux

package sock

import "net/netip"

// SendWhole is not supported here.
func SendWhole(netip.Addr, []byte) error { return unsupported("send a packet with its header") }
