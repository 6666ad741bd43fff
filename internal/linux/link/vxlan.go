package link

import (
	"fmt"
	"net"
	"net/netip"
)

// A VXLAN is a VXLAN device (RFC 7348). It learns nothing: it sends where its entries say ([FDBEntry]), or where each
// packet's route says ([Encap]).
type VXLAN struct {
	Name string
	MAC  net.HardwareAddr
	// MTU in bytes.
	MTU int
	// ID is the network identifier (VNI), 0 if External.
	ID uint32
	// Port is the UDP port that it receives at and sends to.
	Port uint16
	// Local is the source address of its packets, invalid if External. Its family is that of all packets.
	Local netip.Addr
	// Checksum lets packets have a UDP checksum. If External, each route says that.
	Checksum bool
	// External lets routes say where packets go and with which identifier; it receives those of all identifiers.
	External bool
	// Learning says that the device learns from what it receives. It is only read.
	Learning bool
}

// A Geneve is a GENEVE device (RFC 8926) whose packets go where their route says ([Encap]). It receives those of all
// identifiers.
type Geneve struct {
	Name string
	MAC  net.HardwareAddr
	// MTU in bytes.
	MTU int
	// Port is the UDP port that it receives at and sends to.
	Port uint16
	// External is only read.
	External bool
}

// An FDBEntry says where a VXLAN device sends the frames for a MAC address.
type FDBEntry struct {
	// Link is the index of the device.
	Link int
	MAC  net.HardwareAddr
	// At is the address of the host to send to.
	At netip.Addr
	// Port, ID and Through are what differs from the device: the port, the identifier, and the link to leave by. 0 is
	// the device's. They are only read.
	Port    uint16
	ID      uint32
	Through int
	// Learned says that the entry is not permanent. It is only read.
	Learned bool
}

// String says the entry in a few words, without the device.
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

// An Encap is what a route tells an external device about its packets (ip-route(8), encap ip and encap ip6). The zero
// value tells nothing.
type Encap struct {
	// ID is the network identifier.
	ID uint64
	// Local and Remote are the addresses of the packets that carry others. They are of one family.
	Local, Remote netip.Addr
	// Checksum lets the packets have a UDP checksum.
	Checksum bool
	// TTL is that of the packets, or their hop limit. 0 is what a GENEVE device sends then: no router forwards it.
	TTL uint8
}

// String says it in a few words, "" of the zero value.
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
