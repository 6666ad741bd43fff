package link

import "net/netip"

// TTL is the time to live, or the hop limit, of packets between the ends of a tunnel: RFC 1700, page 64.
const TTL = 64

// A Tunnel is a link that carries IP packets to one other host, in IP packets or in GRE.
type Tunnel struct {
	Name string
	// GRE says that packets are in GRE (RFC 2784). Otherwise they are in IP packets (RFC 2003, RFC 2473, RFC 4213).
	GRE bool
	// Local and Remote are the addresses of outer packets, of one family.
	Local, Remote netip.Addr
	// MTU in bytes, 0 for what the kernel takes.
	MTU int
}

// TunnelKind is the kernel's name of the links that are such tunnels, over IPv6 or over IPv4. Links "sit" carry packets
// of both families over IPv4, and links "ipip" only those of IPv4.
func TunnelKind(gre, over6 bool) string {
	switch {
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
