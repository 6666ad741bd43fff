package attack

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/proof/packet"
)

const (
	// nobodys is a port of no container: they have theirs from 20000 to 59999.
	nobodys = 61_000
	// ssh is a port at which hosts listen (IANA).
	ssh = 22
	// opened is which of its ports a source begins to talk from: it may be answered there.
	opened = 2
	// flags is how many combinations of FIN, SYN, RST, PSH, ACK and URG there are.
	flags = 64
)

// udp is a datagram of a key.
func udp(from, to netip.AddrPort, key string) []byte {
	return packet.IP(from.Addr(), to.Addr(), packet.UDP, packet.Hops, packet.Datagram(from, to, key))
}

// tcp is a segment with a key.
func tcp(from, to netip.AddrPort, with byte, key string) []byte {
	return packet.IP(from.Addr(), to.Addr(), packet.TCP, packet.Hops, packet.Segment(from, to, with, key))
}

// in puts a packet into a frame of a container for each of some links.
func (e *end) in(packetOf []byte, to ...net.HardwareAddr) [][]byte {
	kind := uint16(packet.TypeIPv4)
	if packetOf[0]>>4 == 6 {
		kind = packet.TypeIPv6
	}
	frames := make([][]byte, len(to))
	for i, mac := range to {
		frames[i] = packet.Frame(mac, e.mac, kind, packetOf)
	}
	return frames
}

// pairs yields the pairs.
func (s *stand) pairs(f func(source, sink *end)) {
	for _, p := range s.Pairs {
		f(s.end(p.Source), s.end(p.Sink))
	}
}

// way returns the MAC address by which what a source may send reaches its sink; false where nothing does.
func (s *stand) way(source, sink *end, v6 bool) (net.HardwareAddr, bool) {
	if mac, ok := s.known[v6][[2]*end{source, sink}]; ok {
		return mac, mac != nil
	}
	var found net.HardwareAddr
	for _, mac := range s.ways(source, sink) {
		s.number++
		p := udp(netip.AddrPortFrom(source.Own(v6), source.First+1), netip.AddrPortFrom(sink.Public(v6), sink.First),
			s.key(s.number, 0))
		for range 2 { // the first may have been waiting for a neighbour
			if source.send(source.in(p, mac)[0]) != nil {
				break
			}
			if s.until(func() bool { return len(s.taps.got(s.behind(), sink.index, s.number)) > 0 }, settle) {
				found = mac
				break
			}
		}
		if found != nil {
			break
		}
	}
	s.known[v6][[2]*end{source, sink}] = found
	return found, found != nil
}

// behind is where containers hear what their filters have let in.
func (s *stand) behind() place {
	if s.Inside {
		return inside
	}
	return atLink
}

// back is the way from a sink to its source: as the way there.
func (s *stand) back(source, sink *end, v6 bool) []net.HardwareAddr {
	mac, ok := s.way(source, sink, v6)
	switch {
	case !ok:
		return s.ways(sink, source)
	case slices.Equal(mac, sink.mac):
		return []net.HardwareAddr{source.mac}
	case slices.Equal(mac, source.outer):
		return []net.HardwareAddr{sink.outer}
	}
	for _, there := range source.machine.links {
		for _, here := range sink.machine.links {
			if slices.Equal(there.MAC, mac) && here.Name == there.Name {
				return []net.HardwareAddr{here.MAC}
			}
		}
	}
	return s.ways(sink, source)
}

// forth is the way from a source to its sink.
func (s *stand) forth(source, sink *end, v6 bool) []net.HardwareAddr {
	if mac, ok := s.way(source, sink, v6); ok {
		return []net.HardwareAddr{mac}
	}
	return s.ways(source, sink)
}

// sweep returns every port if the lab asks for that and has a filter. Otherwise it returns every 251st port, and the
// ends of every range with the ports next to them.
func (s *stand) sweep(every bool) []uint16 {
	var list []uint16
	if s.Filtered && s.Exhaustive && every {
		for port := range 1 << 16 {
			list = append(list, uint16(port))
		}
		return list
	}
	const each = 251
	for port := 0; port < 1<<16; port += each {
		list = append(list, uint16(port))
	}
	for _, e := range s.ends {
		for _, port := range []uint16{e.First, e.Last} {
			list = append(list, port-1, port, port+1)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// detours sends what no list has in frames for every link.
func (s *stand) detours(v6 bool) (list []try) {
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			a, b := netip.AddrPortFrom(from.Own(v6), nobodys), netip.AddrPortFrom(target, to.Last)
			list = append(list, try{
				what: fmt.Sprintf("a datagram for %s in frames for every link", b), from: from,
				made: func(key string, _ uint16) [][]byte { return from.in(udp(a, b, key), s.everywhere(from)...) },
			})
		}
	})
	return list
}

// bypass sends what is allowed in frames for the host's end of the container's link, where a switch that is none of the
// kernel's own should have taken it. A Linux bridge has the addresses of its ports: what is for one of them goes
// through it like everything else.
func (s *stand) bypass(v6 bool) (list []try) {
	s.pairs(func(source, sink *end) {
		mac, ok := s.way(source, sink, v6)
		routes := slices.ContainsFunc(source.gates, func(gate netip.Addr) bool {
			return slices.Contains(source.gateway(gate), source.outer.String())
		})
		if !ok || source.outer == nil || slices.Equal(mac, source.outer) || routes || source.bridged() {
			return
		}
		a, b := netip.AddrPortFrom(source.Own(v6), source.First+1), netip.AddrPortFrom(sink.Public(v6), sink.First)
		list = append(list, try{
			what: fmt.Sprintf("an allowed datagram for %s in a frame for the host's end of the link", b), from: source, to: sink,
			whole: true, // a switch that does not know the address floods, and no container takes the frame
			made:  func(key string, _ uint16) [][]byte { return source.in(udp(a, b, key), source.outer) },
		})
	})
	return list
}

// bridged says whether the host's end of the link is a port of a Linux bridge.
func (e *end) bridged() bool {
	for _, l := range e.machine.links {
		if l.Name != e.Link {
			continue
		}
		for _, m := range e.machine.links {
			if l.Master != 0 && m.Index == l.Master {
				return m.Type == "bridge"
			}
		}
	}
	return false
}

// ports asks a sink for some ports of every range, and for one that is allowed from ports that are not the source's.
func (s *stand) ports(v6 bool) (list []try) {
	s.pairs(func(source, sink *end) {
		ways := s.forth(source, sink, v6)
		for _, target := range sink.Targets(v6) {
			a := netip.AddrPortFrom(source.Own(v6), source.First+opened)
			listed := func(at int, port uint16) verdict {
				switch {
				case !s.listed(v6) || at != sink.index || port < sink.First || port >= sink.Last:
					return hole
				case target == sink.Public(v6):
					return allowed
				}
				return fine
			}
			list = append(list,
				try{
					what: fmt.Sprintf("UDP for %s", target), from: source, to: sink, ports: s.sweep(false), counts: listed,
					made: func(key string, port uint16) [][]byte {
						return source.in(udp(a, netip.AddrPortFrom(target, port), key), ways...)
					},
				},
				try{
					what: fmt.Sprintf("TCP that opens a connection to %s", target), from: source, to: sink, ports: s.sweep(false),
					counts: listed,
					made: func(key string, port uint16) [][]byte {
						return source.in(tcp(a, netip.AddrPortFrom(target, port), packet.SYN, key), ways...)
					},
				})
			b := netip.AddrPortFrom(target, sink.First+1)
			from := slices.DeleteFunc(s.sweep(false), func(port uint16) bool {
				return port >= source.First && port <= source.Last
			})
			list = append(list, try{
				what: fmt.Sprintf("UDP and TCP that opens a connection from ports that are not the source's for %s", b),
				from: source, to: sink, ports: from,
				made: func(key string, port uint16) [][]byte {
					a := netip.AddrPortFrom(source.Own(v6), port)
					return slices.Concat(source.in(udp(a, b, key), ways...), source.in(tcp(a, b, packet.SYN, key), ways...))
				},
			})
		}
	})
	return list
}

// portZero sends from and to port 0.
func (s *stand) portZero(v6 bool) (list []try) {
	combinations := make([]uint16, flags)
	for i := range combinations {
		combinations[i] = uint16(i)
	}
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			for _, ports := range [][2]uint16{
				{0, 0},
				{from.First, 0},
				{from.First + 1, 0},
				{nobodys, 0},
				{0, to.First},
				{0, to.First + 1},
				{0, to.Last},
				{0, nobodys},
			} {
				a, b := netip.AddrPortFrom(from.Own(v6), ports[0]), netip.AddrPortFrom(target, ports[1])
				list = append(list,
					try{
						what: fmt.Sprintf("UDP from port %d for %s", ports[0], b), from: from, to: to,
						made: func(key string, _ uint16) [][]byte { return from.in(udp(a, b, key), s.ways(from, to)...) },
					},
					try{
						what: fmt.Sprintf("TCP from port %d for %s", ports[0], b), from: from, to: to, ports: combinations,
						each: "flag combination",
						made: func(key string, with uint16) [][]byte {
							return from.in(tcp(a, b, byte(with), key), s.ways(from, to)...)
						},
					})
			}
		}
	})
	return list
}

// replies sends what looks like an answer. Without connection tracking those from a service's port to the ports of its
// source cannot be told from one, unless they open a connection.
func (s *stand) replies(v6 bool) (list []try) {
	combinations := make([]uint16, flags)
	for i := range combinations {
		combinations[i] = uint16(i)
	}
	first := true
	s.pairs(func(source, sink *end) {
		ways := s.back(source, sink, v6)
		for _, target := range source.Targets(v6) {
			service := netip.AddrPortFrom(sink.Own(v6), sink.First+1)
			answers := func(at int, port uint16) verdict {
				switch {
				case s.Stateful && at == source.index && port == source.First+opened:
					return fine // the source has begun
				case s.Stateful || !s.listed(v6) || at != source.index || port < source.First || port > source.Last:
					return hole
				case target == source.Public(v6) && !s.Published:
					return allowed
				}
				return fine
			}
			list = append(list,
				try{
					what: fmt.Sprintf("UDP from the service's port %d for %s", service.Port(), target), from: sink, to: source,
					ports: s.sweep(first), counts: answers, answers: target != source.Own(v6),
					made: func(key string, port uint16) [][]byte {
						return sink.in(udp(service, netip.AddrPortFrom(target, port), key), ways...)
					},
				},
				try{
					what: fmt.Sprintf("TCP with ACK from the service's port %d for %s", service.Port(), target), from: sink,
					to: source, ports: s.sweep(first), counts: answers, answers: target != source.Own(v6),
					made: func(key string, port uint16) [][]byte {
						return sink.in(tcp(service, netip.AddrPortFrom(target, port), packet.ACK, key), ways...)
					},
				})
			for _, to := range []uint16{source.First, source.First + 3, source.First - 1, nobodys, ssh} {
				b := netip.AddrPortFrom(target, to)
				list = append(list, try{
					what: fmt.Sprintf("TCP from the service's port %d for %s", service.Port(), b), from: sink, to: source,
					ports: combinations, each: "flag combination",
					counts: func(at int, with uint16) verdict {
						if !s.Stateful && s.listed(v6) && at == source.index && to >= source.First && to <= source.Last &&
							with&(packet.SYN|packet.ACK) != packet.SYN {
							return fine
						}
						return hole
					},
					made: func(key string, with uint16) [][]byte { return sink.in(tcp(service, b, byte(with), key), ways...) },
				})
			}
			// No service uses the sink's last port or the port nobodys, so no answer may come from them.
			for _, from := range []uint16{sink.Last, nobodys} {
				a := netip.AddrPortFrom(sink.Own(v6), from)
				for _, to := range []uint16{source.First, source.First + 3} {
					b := netip.AddrPortFrom(target, to)
					list = append(list,
						try{
							what: fmt.Sprintf("UDP from port %d, which no service uses, for %s", from, b), from: sink,
							made: func(key string, _ uint16) [][]byte { return sink.in(udp(a, b, key), ways...) },
						},
						try{
							what: fmt.Sprintf("TCP with ACK from port %d, which no service uses, for %s", from, b), from: sink,
							made: func(key string, _ uint16) [][]byte { return sink.in(tcp(a, b, packet.ACK, key), ways...) },
						},
					)
				}
			}
		}
		for _, other := range s.ends { // what answers one source answers no other
			if other == source || other == sink || s.paired(other, sink) {
				continue
			}
			for _, target := range other.Targets(v6) {
				a, b := netip.AddrPortFrom(sink.Own(v6), sink.First+1), netip.AddrPortFrom(target, other.First)
				list = append(list, try{
					what: fmt.Sprintf("UDP and TCP with ACK from the service's port %d of another pair for %s", a.Port(), b),
					from: sink,
					made: func(key string, _ uint16) [][]byte {
						return slices.Concat(sink.in(udp(a, b, key), s.ways(sink, other)...),
							sink.in(tcp(a, b, packet.ACK, key), s.ways(sink, other)...))
					},
				})
			}
		}
		first = false
	})
	return list
}

// guise sends what a pair may exchange from everybody else, with the addresses of the pair.
func (s *stand) guise(v6 bool) (list []try) {
	s.pairs(func(source, sink *end) {
		for _, from := range s.ends {
			if from == source || from == sink {
				continue
			}
			for _, side := range []struct {
				as, to *end
				ports  [2]uint16
			}{
				{as: source, to: sink, ports: [2]uint16{source.First + 1, sink.First}},
				{as: sink, to: source, ports: [2]uint16{sink.First + 1, source.First + 1}},
			} {
				for _, theirs := range []bool{false, true} {
					a, b := netip.AddrPortFrom(side.as.Own(v6), side.ports[0]), netip.AddrPortFrom(side.to.Public(v6), side.ports[1])
					whose, with := "its own MAC address", from.mac
					if theirs {
						whose, with = "its MAC address", side.as.mac
					}
					t := try{
						what: fmt.Sprintf("as %s with %s, for %s", side.as.Name, whose, side.to.Name), from: from, to: side.to,
						made: func(key string, _ uint16) (frames [][]byte) {
							ways := s.ways(from, side.to)
							for _, p := range [][]byte{udp(a, b, key), tcp(a, b, packet.ACK, key), tcp(a, b, packet.SYN, key)} {
								for _, f := range from.in(p, ways...) {
									copy(f[6:], with)
									frames = append(frames, f)
								}
							}
							return frames
						},
						counts: func(at int, _ uint16) verdict {
							if at == side.as.index {
								return fine // who has this address may hear of it
							}
							return hole
						},
					}
					list = append(list, t)
				}
			}
		}
	})
	for _, e := range s.ends { // it is where it was
		list = append(list, try{
			what: "", from: e, to: e, counts: func(int, uint16) verdict { return fine },
			made: func(string, uint16) [][]byte { return e.announce(e.mac, e.Own(v6)) },
		})
	}
	return list
}

// announce says to all that an address is at a MAC address. ARP says it in a reply that names that MAC address twice
// (RFC 5944, section 4.6): Linux takes another reply for an answer to a question, and ignores it for a second after it
// last heard of the address (net/ipv4/arp.c, arp_is_garp, and locktime).
func (e *end) announce(mac net.HardwareAddr, of netip.Addr) [][]byte {
	if of.Is4() {
		return [][]byte{packet.Frame(packet.Broadcast(), e.mac, packet.TypeARP,
			packet.ARP(packet.Reply, mac, of, mac, of))}
	}
	all := netip.AddrFrom16([16]byte{0xff, 2, 15: 1})
	return [][]byte{packet.Frame(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, e.mac, packet.TypeIPv6,
		packet.Advertisement(mac, of, all))}
}

// tells says to one container alone that an address is at a MAC address. A switch that passes packets by the addresses
// in them passes it there, and what is said to all nowhere.
func (e *end) tells(to *end, mac net.HardwareAddr, of netip.Addr) []byte {
	own := to.Own(of.Is6())
	if of.Is6() {
		return packet.Frame(to.mac, e.mac, packet.TypeIPv6, packet.Advertisement(mac, of, own))
	}
	return packet.Frame(to.mac, e.mac, packet.TypeARP, packet.ARP(packet.Reply, mac, of, to.mac, own))
}

// router says to all others that here is a router: RFC 4861, section 4.2, with an option that nobody knows (RFC 4727);
// RFC 1256, section 3.
func (s *stand) router(v6 bool) (list []try) {
	all, group := netip.AddrFrom4([4]byte{224, 0, 0, 1}), net.HardwareAddr{1, 0, 0x5e, 0, 0, 1}
	if v6 {
		all, group = netip.AddrFrom16([16]byte{0xff, 2, 15: 1}), net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	}
	for _, from := range s.ends {
		list = append(list, try{
			what: "a router's advertisement", from: from,
			made: func(key string, _ uint16) [][]byte { return from.in(from.advertisement(all, key), group) },
		})
	}
	s.others(func(from, to *end) { // hosts accept it if it is for them alone, too
		target := to.Own(v6)
		list = append(list, try{
			what: fmt.Sprintf("a router's advertisement for %s", target), from: from, to: to,
			made: func(key string, _ uint16) [][]byte {
				return from.in(from.advertisement(target, key), s.ways(from, to)...)
			},
		})
	})
	return list
}

// advertisement is a router's. It is for neighbours only: IPv4 lets no router forward it by its time to live, and IPv6
// by the address that it comes from.
func (e *end) advertisement(to netip.Addr, key string) []byte {
	if to.Is4() {
		body := append(e.IPv4.AsSlice(), key...)
		return packet.IP(e.IPv4, to, packet.ICMP, 1, packet.Message(e.IPv4, to, 9, 0, 0x01020708, body))
	}
	from, _ := linkLocal(e.mac)
	body := append(make([]byte, 8), 253, 2)
	body = append(body, key...)
	return packet.IP(from, to, packet.ICMPv6, packet.NDHops, packet.Message(from, to, 134, 0, 64<<24, body))
}
