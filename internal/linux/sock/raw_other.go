//go:build !linux

package sock

import "net/netip"

// SendRaw is not supported here.
func SendRaw(netip.Addr, []byte) error { return unsupported("send a raw packet") }
