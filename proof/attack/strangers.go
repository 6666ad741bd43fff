package attack

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/proof/packet"
)

// synAck sends answers to connections that nobody has begun, from every container to every other. Without connection
// tracking those of a sink to its source cannot be told from an answer, and those of a source to its sink from its
// other packets.
func (s *stand) synAck(v6 bool) (list []try) {
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			for _, ports := range [][2]uint16{
				{from.First + 1, to.First},
				{from.First + 1, to.First + 3},
				{from.First + 1, nobodys},
				{nobodys, to.First + 3},
				{from.First + 1, ssh},
			} {
				a, b := netip.AddrPortFrom(from.Own(v6), ports[0]), netip.AddrPortFrom(target, ports[1])
				listed := s.listed(v6) && b.Port() >= to.First && b.Port() <= to.Last && a.Port() != nobodys
				list = append(list, try{
					what: fmt.Sprintf("TCP with SYN and ACK from port %d for %s", a.Port(), b), from: from, to: to,
					counts: func(at int, _ uint16) verdict {
						switch {
						case !listed || at != to.index:
							return hole
						case s.paired(to, from) && !s.Stateful, s.paired(from, to) && b.Port() < to.Last:
							return fine
						}
						return hole
					},
					made: func(key string, _ uint16) [][]byte {
						return from.in(tcp(a, b, packet.SYN|packet.ACK, key), s.ways(from, to)...)
					},
				})
			}
		}
	})
	return list
}

// errorsOf are types and codes of ICMP that quote a packet: unreachable, too big, redirected, too late, wrong (RFC 792,
// RFC 1191; RFC 4443, section 3).
func errorsOf(v6 bool) []uint16 {
	if v6 {
		return []uint16{1 << 8, 1<<8 | 4, 2 << 8, 3 << 8, 4 << 8}
	}
	return []uint16{3 << 8, 3<<8 | 1, 3<<8 | 3, 3<<8 | 4, 4 << 8, 5<<8 | 1, 11 << 8, 12 << 8}
}

// quoting makes an error that quotes a datagram with the key of a try in it. One that says that a packet was too big
// names the MTU that everybody has already.
func (s *stand) quoting(from, to netip.Addr, a, b netip.AddrPort, key string, kind uint16) []byte {
	quoted := udp(a, b, s.forge(key))
	rest := uint32(0)
	switch {
	case !to.Is6() && kind == 3<<8|4, to.Is6() && kind == 2<<8:
		rest = uint32(s.MTU)
	case !to.Is6() && kind == 5<<8|1: // the router to use is the one who says so
		rest = binary.BigEndian.Uint32(from.AsSlice())
	}
	return packet.IP(from, to, packet.ICMPOf(to), packet.Hops,
		packet.Message(from, to, byte(kind>>8), byte(kind), rest, quoted))
}

// errors sends errors that quote what nobody has sent.
func (s *stand) errors(v6 bool) (list []try) {
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			a, b := netip.AddrPortFrom(target, nobodys), netip.AddrPortFrom(from.Own(v6), ssh)
			list = append(list, try{
				what: fmt.Sprintf("errors of ICMP for %s about a packet that it has not sent", target), from: from,
				ports: errorsOf(v6), each: "type and code",
				made: func(key string, kind uint16) [][]byte {
					return from.in(s.quoting(from.Own(v6), target, a, b, key, kind), s.ways(from, to)...)
				},
			})
		}
	})
	return list
}

// knownErrors sends errors about flows of others that go on: those of each pair, to both of its ends, from everybody
// else.
func (s *stand) knownErrors(o *Outcome, v6 bool) error {
	if !s.listed(v6) {
		o.NotTried = noPair
		return nil
	}
	var list []try
	for _, p := range s.Pairs {
		source, sink := s.end(p.Source), s.end(p.Sink)
		flow, err := s.flow(source, sink, v6)
		if err != nil {
			return err
		}
		_, heard := flow.send(nil)
		flow.close()
		if !heard {
			o.Missing = append(o.Missing, fmt.Sprintf("a datagram from %s to %s", source.Name, sink.Name))
			continue
		}
		there := netip.AddrPortFrom(sink.Public(v6), sink.First)
		here := netip.AddrPortFrom(source.Own(v6), source.First+flowing)
		for _, from := range s.ends {
			if from == source || from == sink {
				continue
			}
			list = append(list, try{
				what: fmt.Sprintf("errors of ICMP for %s about its flow to %s", source.Name, sink.Name), from: from,
				ports: errorsOf(v6), each: "type and code",
				made: func(key string, kind uint16) [][]byte {
					return from.in(s.quoting(from.Own(v6), here.Addr(), here, there, key, kind), s.ways(from, source)...)
				},
			}, try{
				what: fmt.Sprintf("errors of ICMP for %s about its answers to %s", sink.Name, source.Name), from: from,
				ports: errorsOf(v6), each: "type and code",
				made: func(key string, kind uint16) [][]byte {
					to := sink.Own(v6)
					return from.in(s.quoting(from.Own(v6), to, netip.AddrPortFrom(to, sink.First),
						netip.AddrPortFrom(source.Public(v6), here.Port()), key, kind), s.ways(from, sink)...)
				},
			})
		}
	}
	return s.try(o, list)
}

// dhcp says to all others that here is a server that has an address and a route for them, and asks them for one as a
// client does: who hears that can answer (RFC 2131; RFC 8415).
func (s *stand) dhcp(v6 bool) (list []try) {
	for _, from := range s.ends {
		if v6 {
			list = append(list, from.asksDHCP6())
		} else {
			list = append(list, from.asksDHCP())
		}
		for _, to := range s.ends {
			if to == from {
				continue
			}
			if v6 {
				list = append(list, from.offersDHCP6(to, s.ways(from, to)))
			} else {
				list = append(list, from.offersDHCP(to, s.ways(from, to)))
			}
		}
	}
	return list
}

// Ports of DHCP (RFC 2131, section 4.1; RFC 8415, section 7.2).
const (
	serverDHCP, clientDHCP   = 67, 68
	serverDHCP6, clientDHCP6 = 547, 546
)

// bootp is a message of DHCP of an operation and a type (RFC 2131, section 2; RFC 2132, sections 3.5, 9.6 and 9.7),
// with a key in an option that nobody has (RFC 3942).
func bootp(operation, kind byte, client net.HardwareAddr, address, server netip.Addr, key string) string {
	header := make([]byte, 236)
	copy(header, []byte{operation, 1, 6, 0, 0x6e, 0x74, 0x6f, 0x6c})
	copy(header[16:], address.AsSlice())
	copy(header[20:], server.AsSlice())
	copy(header[28:], client)
	options := []byte{0x63, 0x82, 0x53, 0x63, 53, 1, kind}
	if kind == 2 { // an offer, and the server as router
		options = append(append(options, 54, 4), server.AsSlice()...)
		options = append(append(options, 3, 4), server.AsSlice()...)
	}
	options = append(append(options, 224, byte(len(key))), key...)
	return string(header) + string(append(options, 255))
}

// asksDHCP is a DHCPDISCOVER.
func (e *end) asksDHCP() try {
	all := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return try{
		what: "a question for a server of DHCP", from: e,
		made: func(key string, _ uint16) [][]byte {
			a, b := netip.AddrPortFrom(netip.IPv4Unspecified(), clientDHCP), netip.AddrPortFrom(all, serverDHCP)
			m := bootp(1, 1, e.mac, netip.IPv4Unspecified(), netip.IPv4Unspecified(), key)
			return e.in(udp(a, b, m), packet.Broadcast())
		},
	}
}

// offersDHCP is a DHCPOFFER, to all and to one.
func (e *end) offersDHCP(to *end, ways []net.HardwareAddr) try {
	all := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return try{
		what: "an offer of DHCP for " + to.Name, from: e,
		made: func(key string, _ uint16) [][]byte {
			a, m := netip.AddrPortFrom(e.IPv4, serverDHCP), bootp(2, 2, to.mac, to.IPv4, e.IPv4, key)
			return slices.Concat(e.in(udp(a, netip.AddrPortFrom(all, clientDHCP), m), packet.Broadcast()),
				e.in(udp(a, netip.AddrPortFrom(to.IPv4, clientDHCP), m), ways...))
		},
	}
}

// dhcp6 is a message of DHCP for IPv6 of a type, with a key in an option that nobody has (RFC 8415, section 8).
func dhcp6(kind byte, key string) string {
	m := append([]byte{kind, 0x6e, 0x74, 0x6f}, 0xff, 0xf0, 0, byte(len(key)))
	return string(append(m, key...))
}

// asksDHCP6 is a Solicit to all servers (RFC 8415, section 7.1).
func (e *end) asksDHCP6() try {
	return try{
		what: "a question for a server of DHCP", from: e,
		made: func(key string, _ uint16) [][]byte {
			local, _ := linkLocal(e.mac)
			all := netip.AddrFrom16([16]byte{0xff, 2, 13: 1, 15: 2})
			return e.in(udp(netip.AddrPortFrom(local, clientDHCP6), netip.AddrPortFrom(all, serverDHCP6), dhcp6(1, key)),
				net.HardwareAddr{0x33, 0x33, 0, 1, 0, 2})
		},
	}
}

// offersDHCP6 is an Advertise to one, at both of its addresses.
func (e *end) offersDHCP6(to *end, ways []net.HardwareAddr) try {
	return try{
		what: "an offer of DHCP for " + to.Name, from: e,
		made: func(key string, _ uint16) [][]byte {
			here, _ := linkLocal(e.mac)
			there, _ := linkLocal(to.mac)
			m := dhcp6(2, key)
			return slices.Concat(
				e.in(udp(netip.AddrPortFrom(here, serverDHCP6), netip.AddrPortFrom(there, clientDHCP6), m), ways...),
				e.in(udp(netip.AddrPortFrom(e.IPv6, serverDHCP6), netip.AddrPortFrom(to.IPv6, clientDHCP6), m), ways...))
		},
	}
}
