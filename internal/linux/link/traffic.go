package link

import (
	"net"
	"net/netip"
)

// A Traffic is how many packets a link has carried since it was made.
type Traffic struct {
	Name string
	// Master is the name of the link that it is a port of, "" for none: a bridge, the datapath of an Open vSwitch.
	Master string
	// MasterType is the kernel's name of its kind, as [Link.Type].
	MasterType string
	// Received and Sent are packets. A large segment of TCP or UDP that is cut later counts as one.
	Received, Sent uint64
}

// A Next is where packets leave a namespace for.
type Next struct {
	// Link is the name of the link.
	Link string
	// Via is the neighbour that gets them: a gateway, or the destination itself.
	Via netip.Addr
	// MAC is the address of the neighbour in the neighbour table; nil if there is none, as on links without ARP.
	MAC net.HardwareAddr
}
