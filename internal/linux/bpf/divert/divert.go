package divert

import (
	"net"
	"net/netip"
)

// A Tunnel is what is diverted.
type Tunnel struct {
	// Gate is the name of the link to the program. Packets have the MAC address To there, that of the program, and come
	// from that of the link.
	Gate string
	To   net.HardwareAddr
	// Protocol is what IP carries (IANA, Protocol Numbers), and Port the port of UDP that packets are for, 0 without.
	Protocol uint8
	Port     uint16
	// Peers are the other hosts, at addresses of one family.
	Peers []Peer
}

// A Peer is another host.
type Peer struct {
	// Below is the name of the link that outer packets leave and arrive by. Either all of these carry Ethernet frames, or
	// none does.
	Below string
	// Local and Remote are the addresses of outer packets. The route to Remote leads through Below.
	Local, Remote netip.Addr
}
