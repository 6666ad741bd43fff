package link

import "net/netip"

// TTL is the time to live, or the hop limit, of packets between the ends of a tunnel: RFC 1700, page 64.
const TTL = 64

// A Tunnel is a link that carries IP packets to one other host, in IP packets or in GRE, or Ethernet frames in GRE.
type Tunnel struct {
	Name string
	// MAC is the address of a link that carries frames, "" of one that carries packets.
	MAC string
	// GRE says that packets are in GRE (RFC 2784). Otherwise they are in IP packets (RFC 2003, RFC 2473, RFC 4213).
	GRE bool
	// Local and Remote are the addresses of outer packets, of one family.
	Local, Remote netip.Addr
	// MTU in bytes, 0 for what the kernel takes.
	MTU int
	// Keys are those of GRE (RFC 2890, section 2.1) of what is received and sent. They are only read.
	Keys [2]uint32
}

// TunnelKind is the kernel's name of the links that are such tunnels, of packets or of frames, over IPv6 or over IPv4.
// Links "sit" carry packets of both families over IPv4, and links "ipip" only those of IPv4.
func TunnelKind(gre, frames, over6 bool) string {
	switch {
	case frames && over6:
		return "ip6gretap"
	case frames:
		return "gretap"
	case gre && over6:
		return "ip6gre"
	case gre:
		return "gre"
	case over6:
		return "ip6tnl"
	default:
		return "sit"
	}
}
