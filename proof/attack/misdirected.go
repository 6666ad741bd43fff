package attack

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/proof/packet"
)

// misdirected sends what a pair may exchange in frames that are not for the one that the packet is for: for each other
// container, for a MAC address that nobody has, and for all. A filter that compares addresses of IP lets the packet
// pass, and the root of who gets the frame reads it at its link. In the frame that it should be in, it arrives.
func (s *stand) misdirected(v6 bool) (list []try) {
	s.pairs(func(source, sink *end) {
		mac, ok := s.way(source, sink, v6)
		if !ok || !s.listed(v6) {
			return
		}
		a, b := netip.AddrPortFrom(source.Own(v6), source.First+1), netip.AddrPortFrom(sink.Public(v6), sink.First)
		list = append(list, try{
			what: fmt.Sprintf("an allowed datagram for %s", b), from: source, to: sink,
			counts: func(at int, _ uint16) verdict {
				if at == sink.index {
					return allowed
				}
				return fine // a switch that does not know yet where the sink is floods it: see listening
			},
			made: func(key string, _ uint16) [][]byte { return source.in(udp(a, b, key), mac) },
		})
		list = append(list, s.astray(source, sink, a, b, mac)...)
		if s.Stateful || s.Published { // what answers nothing is refused whatever its frame
			return
		}
		answers := netip.AddrPortFrom(sink.Own(v6), sink.First)
		asked := netip.AddrPortFrom(source.Public(v6), source.First+1)
		list = append(list, s.astray(sink, source, answers, asked, s.back(source, sink, v6)[0])...)
	})
	return list
}

// astray sends a datagram in every frame that it should not be in. Honest is the MAC address of the one that it should.
func (s *stand) astray(from, to *end, a, b netip.AddrPort, honest net.HardwareAddr) (list []try) {
	frames := map[string]net.HardwareAddr{
		// of IPv6 all nodes: RFC 2464, section 7
		"a MAC address that nobody has": {2, s.magic[0], s.magic[1], s.magic[2], s.magic[3], s.magic[4]},
		"all":                           packet.Broadcast(), "a group": {0x33, 0x33, 0, 0, 0, 1},
	}
	if a.Addr().Is4() {
		frames["a group"] = net.HardwareAddr{1, 0, 0x5e, 0, 0, 1} // all hosts: RFC 1112, section 6.4
	}
	for _, e := range s.ends {
		if !slices.Equal(e.mac, honest) && !slices.Equal(e.mac, from.mac) {
			frames[e.Name] = e.mac
		}
	}
	for name, mac := range frames {
		list = append(list, try{
			what: fmt.Sprintf("an allowed datagram for %s in a frame for %s", b, name), from: from, to: to,
			linked: true, heard: true,
			counts: func(at int, _ uint16) verdict {
				if at == to.index {
					return fine
				}
				return hole
			},
			made: func(key string, _ uint16) [][]byte { return from.in(udp(a, b, key), mac) },
		})
	}
	slices.SortFunc(list, func(x, y try) int { return strings.Compare(x.what, y.what) })
	return list
}
