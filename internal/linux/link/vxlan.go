package link

import (
	"fmt"
	"net"
	"net/netip"
)

// A VXLAN is a VXLAN device (RFC 7348). It does not learn: its entries ([FDBEntry]), or the route of each packet
// ([Encap]), give the destination.
type VXLAN struct {
	Name string
	MAC  net.HardwareAddr
	// MTU in bytes.
	MTU int
	// ID is the network identifier (VNI); 0 if External.
	ID uint32
	// Port is the UDP port on which it receives and to which it sends.
	Port uint16
	// Local is the source address of its packets; invalid if External. All packets are of its family.
	Local netip.Addr
	// Checksum adds a UDP checksum to packets. If External, each route decides that.
	Checksum bool
	// External lets routes give the destination and identifier of packets; the device receives packets of all
	// identifiers.
	External bool
	// Proxy has the device answer for addresses of which it has permanent neighbour entries (ARP and neighbour
	// solicitations).
	Proxy bool
	// Learning says that the device learns from received packets. It is only read.
	Learning bool
}

// A Geneve is a GENEVE device (RFC 8926). The route of each packet gives its destination ([Encap]). The device receives
// packets of all identifiers.
type Geneve struct {
	Name string
	MAC  net.HardwareAddr
	// MTU in bytes.
	MTU int
	// Port is the UDP port on which it receives and to which it sends.
	Port uint16
	// External is only read.
	External bool
}

// An FDBEntry gives the destination of a VXLAN device's frames to a MAC address.
type FDBEntry struct {
	// Link is the index of the device.
	Link int
	MAC  net.HardwareAddr
	// At is the address of the destination host.
	At netip.Addr
	// Port, ID and Through are values that differ from the device's: the port, the identifier, and the outgoing link. 0
	// means the device's. They are only read.
	Port    uint16
	ID      uint32
	Through int
	// Learned says that the entry is not permanent. It is only read.
	Learned bool
}

// String describes the entry in a few words, without the device.
func (e FDBEntry) String() string {
	s := fmt.Sprintf("%s at %s", e.MAC, e.At)
	if e.Port != 0 {
		s += fmt.Sprintf(" port %d", e.Port)
	}
	if e.ID != 0 {
		s += fmt.Sprintf(" vni %d", e.ID)
	}
	if e.Through != 0 {
		s += fmt.Sprintf(" through link %d", e.Through)
	}
	if e.Learned {
		s += " (not permanent)"
	}
	return s
}

// An Encap is what a route passes to an external device about its packets (ip-route(8), encap ip and encap ip6). The
// zero value is nothing.
type Encap struct {
	// ID is the network identifier.
	ID uint64
	// Local and Remote are the source and destination of the outer packets. They are of one family.
	Local, Remote netip.Addr
	// Checksum adds a UDP checksum to the packets.
	Checksum bool
	// TTL is the TTL or hop limit of the packets. If it is 0, a GENEVE device sends 0, and no router forwards the
	// packet.
	TTL uint8
}

// String describes it in a few words; "" for the zero value.
func (e Encap) String() string {
	if e == (Encap{}) {
		return ""
	}
	s := fmt.Sprintf("encap id %d from %s to %s", e.ID, e.Local, e.Remote)
	if e.Checksum {
		s += " with checksum"
	}
	if e.TTL != TTL {
		s += fmt.Sprintf(" with ttl %d", e.TTL)
	}
	return s
}
