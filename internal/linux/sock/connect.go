package sock

import (
	"encoding/binary"
	"net/netip"
)

const (
	sizeofSockaddr4 = 16 // include/uapi/linux/in.h
	addressAt       = 4  // of an IPv4 address, after family and port; of an IPv6 one after the flow label as well
)

// NewAddress converts an address, so that a hot loop that uses one port after another has nothing to convert.
func NewAddress(a netip.AddrPort) Address {
	var r Address
	if a.Addr().Is6() {
		ip := a.Addr().As16()
		binary.NativeEndian.PutUint16(r.raw[:], family6)
		copy(r.raw[2*addressAt:], ip[:])
		r.len = mostAddress
	} else {
		ip := a.Addr().As4()
		binary.NativeEndian.PutUint16(r.raw[:], family4)
		copy(r.raw[addressAt:], ip[:])
		r.len = sizeofSockaddr4
	}
	r.SetPort(a.Port())
	return r
}

// SetPort changes the port.
//
//go:nosplit
func (a *Address) SetPort(port uint16) { a.raw[2], a.raw[3] = byte(port>>8), byte(port) }
