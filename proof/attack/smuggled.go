package attack

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/proof/packet"
)

// every are the numbers that a byte can have.
func every() []uint16 {
	list := make([]uint16, 1<<8)
	for i := range list {
		list[i] = uint16(i)
	}
	return list
}

// protocols sends every protocol, with ports that a pair has for UDP and TCP where it holds any.
func (s *stand) protocols(v6 bool) (list []try) {
	s.ofFirst(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			a, b := netip.AddrPortFrom(from.Own(v6), from.First+1), netip.AddrPortFrom(target, to.First)
			if s.paired(to, from) { // as an answer
				a, b = netip.AddrPortFrom(from.Own(v6), from.First+1), netip.AddrPortFrom(target, to.First+1)
			}
			numbers := slices.DeleteFunc(every(), func(n uint16) bool {
				// other attacks have them
				return n == packet.UDP || n == packet.TCP || n == packet.ICMP || n == packet.ICMPv6 || n == packet.Fragment
			})
			list = append(list, try{
				what: fmt.Sprintf("protocols from %s for %s", a, b), from: from, to: to, ports: numbers, each: "protocol",
				made: func(key string, protocol uint16) [][]byte {
					return from.in(packet.IP(a.Addr(), b.Addr(), byte(protocol), packet.Hops, packet.Datagram(a, b, key)),
						s.ways(from, to)...)
				},
			})
		}
	})
	return list
}

// Types of ICMP and of ICMP for IPv6 that pairs may send (RFC 792; RFC 4443, section 4).
const (
	echoReply    = 0
	echoRequest  = 8
	echoRequest6 = 128
	echoReply6   = 129
)

// types sends every type of ICMP, with the codes 0 and 1: an echo has none but 0, and no more to say with another.
// Those of neighbour discovery are as if they had been forwarded (RFC 4861, section 7.1).
func (s *stand) types(v6 bool) (list []try) {
	request, reply := uint16(echoRequest), uint16(echoReply)
	if v6 {
		request, reply = echoRequest6, echoReply6
	}
	s.ofFirst(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			for _, code := range []byte{0, 1} {
				a := from.Own(v6)
				// they hold what others have sent
				numbers := slices.DeleteFunc(every(), func(n uint16) bool { return quotes(v6, byte(n)) })
				list = append(list, try{
					what: fmt.Sprintf("ICMP of code %d for %s", code, target), from: from, to: to, ports: numbers, each: "type",
					counts: func(at int, kind uint16) verdict {
						// With connection tracking a pair may go on with what its request has begun.
						there := s.ends[at]
						if s.listed(v6) && (kind == request && s.paired(from, there) || kind == reply &&
							(s.paired(there, from) || s.Stateful && s.paired(from, there))) {
							return fine
						}
						return hole
					},
					made: func(key string, kind uint16) [][]byte {
						return from.in(packet.IP(a, target, packet.ICMPOf(target), packet.Hops,
							packet.Message(a, target, byte(kind), code, 1, []byte(key))), s.ways(from, to)...)
					},
				})
			}
		}
	})
	return list
}

// optional puts options between the header of IPv4 and what follows: no operations (RFC 791, section 3.1), or, where
// they are to look like something else, those bytes.
func optional(p, options []byte) []byte {
	header, payload := slices.Clone(p[:20]), p[20:]
	header[0] = 0x40 | byte(5+len(options)/4)
	binary.BigEndian.PutUint16(header[2:], uint16(len(p)+len(options)))
	binary.BigEndian.PutUint16(header[10:], 0)
	header = append(header, options...)
	binary.BigEndian.PutUint16(header[10:], ^packet.Sum(header))
	return slices.Concat(header, payload)
}

// options hides ports that are refused behind options and headers that look like ports that are allowed.
func (s *stand) options(v6 bool) (list []try) {
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			a, b := netip.AddrPortFrom(from.Own(v6), nobodys), netip.AddrPortFrom(target, to.Last)
			looks := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from.First+1), to.First)
			send := func(what string, made func(key string) []byte) {
				list = append(list, try{
					what: fmt.Sprintf("a datagram %s for %s", what, b), from: from,
					made: func(key string, _ uint16) [][]byte { return from.in(made(key), s.ways(from, to)...) },
				})
			}
			if !v6 {
				for _, words := range []int{1, 2, 10} {
					send(fmt.Sprintf("behind %d words of options", words), func(key string) []byte {
						return optional(udp(a, b, key), slices.Repeat([]byte{1}, 4*words))
					})
					send(fmt.Sprintf("behind %d words of options that look like ports", words), func(key string) []byte {
						return optional(udp(a, b, key), slices.Repeat(looks, words))
					})
				}
				continue
			}
			for _, several := range []struct {
				name    string
				headers []byte
			}{
				{"options for both", []byte{packet.HopByHop, packet.Destinations}},
				{"options before and behind a fragment that is the whole", []byte{
					packet.HopByHop, packet.Fragment, packet.Destinations,
				}},
			} {
				send("behind "+several.name, func(key string) []byte {
					next, payload := packet.Behind(several.headers, packet.UDP, packet.Datagram(a, b, key))
					return packet.IP(a.Addr(), b.Addr(), next, packet.Hops, payload)
				})
			}
			for _, header := range []struct {
				name   string
				number byte
			}{
				{"hop-by-hop options", packet.HopByHop},
				{"a route that has ended", packet.Routing},
				{"a fragment that is the whole", packet.Fragment},
				{"options for the destination", packet.Destinations},
				{"a header of authentication", 51}, // RFC 4302
				{"a header of mobility", 135},      // RFC 6275
				{"a header of host identity", 139}, // RFC 7401
				{"a header of shim6", 140},         // RFC 5533
			} {
				for _, times := range []int{1, 2, 8} {
					send(fmt.Sprintf("behind %s, %d times,", header.name, times), func(key string) []byte {
						next, payload := byte(packet.UDP), packet.Datagram(a, b, key)
						// the first two bytes look like the port that the packet comes from, the next two like the one it is for
						for range times {
							one := slices.Concat([]byte{next, 0}, looks, []byte{0, 0})
							switch header.number {
							case packet.Fragment:
								one = []byte{next, 0, 0, 0, 0x42, 0x44, 0, 0}
							case packet.Routing:
								one = []byte{next, 0, 253, 0, 0, 0, 0, 0}
							case packet.HopByHop, packet.Destinations:
								one = slices.Concat([]byte{next, 0, 0x1e, 4}, looks) // an option for experiments, which is skipped (RFC 4727)
							case 51:
								one = slices.Concat([]byte{next, 1, 0, 0}, looks, looks) // (1+2)*4 bytes
							}
							next, payload = header.number, append(one, payload...)
						}
						return packet.IP(a.Addr(), b.Addr(), next, packet.Hops, payload)
					})
				}
			}
		}
	})
	return list
}

// native is the VLAN of frames without a tag, unless a switch has another setting (IEEE 802.1Q, table 9-2).
const native = 1

// wrapped puts a refused datagram into frames that are none of IP.
func (s *stand) wrapped(v6 bool) (list []try) {
	type tags = [][2]uint16
	session := func([]byte) uint16 { return packet.TypePPPoE }
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			a, b := netip.AddrPortFrom(from.Own(v6), nobodys), netip.AddrPortFrom(target, to.Last)
			for _, t := range []struct {
				what string
				tags tags
			}{
				{"in no VLAN, by its tag", tags{{packet.TypeVLAN, 0}}},
				{"in a VLAN", tags{{packet.TypeVLAN, 7}}},
				{"with a tag of QinQ", tags{{packet.TypeService, 0}}},
				{"in no VLAN of no VLAN", tags{{packet.TypeService, 0}, {packet.TypeVLAN, 0}}},
				{"in no VLAN, twice", tags{{packet.TypeVLAN, 0}, {packet.TypeVLAN, 0}}},
				{"in no VLAN, three times", tags{{packet.TypeVLAN, 0}, {packet.TypeVLAN, 0}, {packet.TypeVLAN, 0}}},
				{"in a VLAN of a VLAN", tags{{packet.TypeService, 7}, {packet.TypeVLAN, 9}}},
				{"in the native VLAN", tags{{packet.TypeVLAN, native}}},
				// a switch that takes the tag of the native VLAN off sends the frame on in the VLAN behind it
				{"in no VLAN, behind the tag of the native one", tags{{packet.TypeVLAN, native}, {packet.TypeVLAN, 0}}},
				{"in another VLAN, behind the tag of the native one", tags{{packet.TypeVLAN, native}, {packet.TypeVLAN, 7}}},
			} {
				list = append(list, try{
					what: fmt.Sprintf("a datagram %s for %s", t.what, b), from: from,
					made: func(key string, _ uint16) (frames [][]byte) {
						for _, f := range from.in(udp(a, b, key), s.ways(from, to)...) {
							frames = append(frames, packet.Tagged(f, t.tags...))
						}
						return frames
					},
				})
			}
			for _, t := range []struct {
				what string
				kind func(p []byte) uint16
				wrap func(p []byte) []byte
				tags tags
			}{
				{what: "in a session of PPPoE", kind: session, wrap: func(p []byte) []byte { return packet.Session(target, p) }},
				{
					what: "in a session of PPPoE in no VLAN", kind: session, tags: tags{{packet.TypeVLAN, 0}},
					wrap: func(p []byte) []byte { return packet.Session(target, p) },
				},
				{
					what: "in a frame of SNAP", kind: func(p []byte) uint16 { return uint16(8 + len(p)) },
					wrap: func(p []byte) []byte { // RFC 1042
						return slices.Concat([]byte{0xaa, 0xaa, 3, 0, 0, 0}, binary.BigEndian.AppendUint16(nil, packet.TypeOf(target)), p)
					},
				},
				{
					what: "in a frame of no known type", kind: func([]byte) uint16 { return packet.TypeOwn },
					wrap: func(p []byte) []byte { return p },
				},
			} {
				list = append(list, try{
					what: fmt.Sprintf("a datagram %s for %s", t.what, b), from: from,
					made: func(key string, _ uint16) (frames [][]byte) {
						p := udp(a, b, key)
						for _, mac := range s.ways(from, to) {
							frames = append(frames, packet.Tagged(packet.Frame(mac, from.mac, t.kind(p), t.wrap(p)), t.tags...))
						}
						return frames
					},
				})
			}
		}
	})
	return list
}

// A cut is a packet in two pieces.
type cut struct {
	what     string
	b        netip.AddrPort // whom it is for
	behind   []byte         // headers before its ports
	protocol byte
	may      bool // it is allowed
	at       int  // bytes behind the header of IP
}

// fragments cuts packets that are refused so that their ports and flags are not in the same piece (RFC 1858, sections 3
// and 4). They count where they are put together again: single pieces without ports may pass by their addresses.
func (s *stand) fragments(v6 bool) (list []try) {
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			source, sink := netip.AddrPortFrom(from.Own(v6), from.First+opened), netip.AddrPortFrom(target, to.First+1)
			refused := netip.AddrPortFrom(target, nobodys)
			cuts := []cut{
				{what: "UDP for a refused port, cut behind the ports", b: refused, protocol: packet.UDP, at: 8},
				{what: "UDP for a refused port, cut behind some of what it says", b: refused, protocol: packet.UDP, at: 16},
				{what: "TCP for a refused port, cut behind the ports", b: refused, protocol: packet.TCP, at: 8},
				{
					what: "TCP that opens a connection from a service's port, cut behind the ports", b: sink,
					protocol: packet.TCP, may: s.paired(from, to), at: 8,
				},
				{
					what: "TCP that opens a connection from a service's port, cut behind the flags", b: sink,
					protocol: packet.TCP, may: s.paired(from, to), at: 16,
				},
			}
			if v6 {
				cuts = append(cuts, cut{
					what: "UDP for a refused port, which is behind options in the second piece", b: refused,
					behind: []byte{packet.Destinations}, protocol: packet.UDP, at: 8,
				})
			}
			for _, c := range cuts {
				list = append(list, try{
					what: fmt.Sprintf("%s (%s)", c.what, c.b), from: from, to: to, whole: true,
					counts: func(at int, _ uint16) verdict {
						if c.may && s.listed(v6) && at == to.index {
							return fine
						}
						return hole
					},
					made: func(key string, _ uint16) (frames [][]byte) {
						payload := packet.Datagram(source, c.b, key)
						if c.protocol == packet.TCP {
							payload = packet.Segment(source, c.b, packet.SYN, key)
						}
						next, payload := packet.Behind(c.behind, c.protocol, payload)
						for _, mac := range s.ways(from, to) {
							s.pieces++
							for _, p := range packet.Fragments(source.Addr(), target, next, payload, c.at, s.pieces) {
								frames = append(frames, from.in(p, mac)...)
							}
						}
						return frames
					},
				})
			}
		}
	})
	return append(list, s.overlaps(v6)...)
}

// overlaps sends a piece with allowed ports, and one that writes refused ports or flags over it, before or behind it
// (RFC 1858, section 4; RFC 3128). It counts where it was put together to what is refused.
func (s *stand) overlaps(v6 bool) (list []try) {
	s.pairs(func(source, sink *end) {
		ways := s.forth(source, sink, v6)
		for _, target := range sink.Targets(v6) {
			from := netip.AddrPortFrom(source.Own(v6), source.First+opened)
			good, bad := netip.AddrPortFrom(target, sink.First), netip.AddrPortFrom(target, nobodys)
			for _, last := range []bool{true, false} {
				order := "behind"
				if !last {
					order = "before"
				}
				list = append(list, try{
					what: fmt.Sprintf("UDP for %s in a piece that lies over an allowed one and comes %s it", bad, order),
					from: source, to: sink, whole: true, only: nobodys,
					made: func(key string, _ uint16) (frames [][]byte) {
						pad := string(make([]byte, 2)) // to a multiple of eight bytes, which pieces have but for the last
						first, over := packet.Datagram(from, good, key+pad), packet.Datagram(from, bad, key+pad)
						for _, mac := range ways {
							s.pieces++
							whole := packet.Fragments(from.Addr(), target, packet.UDP, first, 16, s.pieces)
							other := packet.Fragments(from.Addr(), target, packet.UDP, over, 16, s.pieces)
							pieces := [][]byte{whole[0], other[0], whole[1]}
							if !last {
								pieces = [][]byte{other[0], whole[0], whole[1]}
							}
							for _, p := range pieces {
								frames = append(frames, source.in(p, mac)...)
							}
						}
						return frames
					},
				})
			}
		}
	})
	return list
}
