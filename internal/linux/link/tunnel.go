package link

import "net/netip"

// TTL is the time to live, or the hop limit, of packets between the ends of a tunnel: RFC 1700, page 64.
const TTL = 64

// A Tunnel is a link that carries IP packets in IP packets or in GRE, or Ethernet frames in GRE, to one other host.
type Tunnel struct {
	Name string
	// MAC is the address of a link that carries frames; "" for one that carries packets.
	MAC string
	// GRE says that packets are in GRE (RFC 2784). Otherwise they are in IP packets (RFC 2003, RFC 2473, RFC 4213).
	GRE bool
	// Local and Remote are the addresses of outer packets, of one family.
	Local, Remote netip.Addr
	// MTU in bytes; 0 lets the kernel choose.
	MTU int
	// Keys are the GRE keys (RFC 2890, section 2.1) of received and sent packets. They are only read.
	Keys [2]uint32
}

// TunnelKind returns the kernel's name for links that are such tunnels, for packets or frames, over IPv6 or IPv4. Links
// "sit" carry packets of both families over IPv4, and links "ipip" only IPv4 packets.
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
