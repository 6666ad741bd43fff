package encap

import "net/netip"

// A Tunnel describes what a host carries to its peers.
type Tunnel struct {
	// GRE says that packets are in GRE (RFC 2784). Otherwise they are in IP packets (RFC 2003, RFC 2473, RFC 4213).
	GRE bool
	// Peers are the other hosts. Their addresses are of one family.
	Peers []Peer
}

// A Peer is another host.
type Peer struct {
	// Link and Far are the names of the two ends of a veth pair. Packets that the host sends through Link go to the
	// peer, and packets from the peer arrive on Link.
	Link, Far string
	// Below is the name of the link of outer packets. Either all of these links carry Ethernet frames, or none does.
	Below string
	// Local and Remote are the addresses of outer packets. The route to Remote leads through Below.
	Local, Remote netip.Addr
}

// Counts are numbers of packets. A large segment is one packet.
type Counts struct{ Sent, Received uint64 }
