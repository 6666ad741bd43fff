package encap

import "net/netip"

// A Tunnel is what a host carries to its peers.
type Tunnel struct {
	// GRE says that packets are in GRE (RFC 2784). Otherwise they are in IP packets (RFC 2003, RFC 2473, RFC 4213).
	GRE bool
	// Peers are the other hosts, at addresses of one family.
	Peers []Peer
}

// A Peer is another host.
type Peer struct {
	// Link and Far are the names of two veth links, a pair. What the host sends by Link goes to the peer, and what the
	// peer sends is received by Link.
	Link, Far string
	// Below is the name of the link that outer packets leave and arrive by. Either all of
	// these carry Ethernet frames, or none does.
	Below string
	// Local and Remote are the addresses of outer packets. The route to Remote leads through Below.
	Local, Remote netip.Addr
}

// Counts are packets. A large segment is one packet.
type Counts struct{ Sent, Received uint64 }
