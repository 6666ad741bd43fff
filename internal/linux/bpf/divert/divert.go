package divert

import (
	"net"
	"net/netip"
)

// A Tunnel describes the packets that are diverted.
type Tunnel struct {
	// Gate is the name of the link to the program. Packets there have the program's MAC address To as their
	// destination, and the link's as their source.
	Gate string
	To   net.HardwareAddr
	// Protocol is the protocol that IP carries (IANA, Protocol Numbers), and Port the UDP destination port; 0 without
	// UDP.
	Protocol uint8
	Port     uint16
	// Peers are the other hosts. Their addresses are of one family.
	Peers []Peer
}

// A Peer is another host.
type Peer struct {
	// Below is the name of the link of outer packets. Either all of these links carry Ethernet frames, or none does.
	Below string
	// Local and Remote are the addresses of outer packets. The route to Remote leads through Below.
	Local, Remote netip.Addr
}
