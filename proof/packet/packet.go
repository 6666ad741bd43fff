package packet

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
)

// Types of frames: include/uapi/linux/if_ether.h.
const (
	TypeIPv4    = 0x0800
	TypeIPv6    = 0x86dd
	TypeARP     = 0x0806
	TypeVLAN    = 0x8100 // 802.1Q
	TypeService = 0x88a8 // 802.1ad, the outer tag of QinQ
	TypePPPoE   = 0x8864 // a Session
	TypeOwn     = 0x88b5 // for experiments (IEEE 802, section 9.2.3)
)

// Numbers of protocols and headers (IANA).
const (
	ICMP         = 1
	TCP          = 6
	UDP          = 17
	ICMPv6       = 58
	HopByHop     = 0
	Routing      = 43
	Fragment     = 44
	Destinations = 60
)

// Hops is the time to live of packets, and NDHops that of neighbour discovery, which nobody has forwarded (RFC 4861,
// section 7.1).
const (
	Hops   = 64
	NDHops = 255
)

// Frame is what is sent over a link.
func Frame(to, from net.HardwareAddr, kind uint16, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint16(slices.Concat(to, from), kind), payload...)
}

// Tagged puts tags between the addresses of a frame and its type: each is a type and the number of a VLAN.
func Tagged(frame []byte, tags ...[2]uint16) []byte {
	var words []byte
	for _, t := range tags {
		words = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(words, t[0]), t[1])
	}
	return slices.Insert(slices.Clone(frame), 12, words...)
}

// TypeOf returns the type of a frame that holds a packet of the family of an address.
func TypeOf(a netip.Addr) uint16 {
	if a.Is6() {
		return TypeIPv6
	}
	return TypeIPv4
}

// Session puts a packet into a Session of PPPoE (RFC 2516, section 4; RFC 1332, RFC 5072).
func Session(a netip.Addr, packet []byte) []byte {
	kind := uint16(0x0021)
	if a.Is6() {
		kind = 0x0057
	}
	h := binary.BigEndian.AppendUint16([]byte{0x11, 0, 0, 1}, uint16(len(packet)+2))
	return append(binary.BigEndian.AppendUint16(h, kind), packet...)
}

// IP puts a header of IP before a payload: RFC 791, section 3.1; RFC 8200, section 3.
func IP(from, to netip.Addr, next, hops byte, payload []byte) []byte {
	if to.Is6() {
		h := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(payload)))
		return slices.Concat(append(h, next, hops), from.AsSlice(), to.AsSlice(), payload)
	}
	h := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(20+len(payload)))
	h = append(h, 0x42, 0x43, 0, 0, hops, next, 0, 0)
	h = slices.Concat(h, from.AsSlice(), to.AsSlice())
	binary.BigEndian.PutUint16(h[10:], ^Sum(h))
	return append(h, payload...)
}

// Sum is the sum of words with the carry going round (RFC 1071).
func Sum(parts ...[]byte) uint16 {
	var s uint32
	for _, p := range parts {
		for i := 0; i+1 < len(p); i += 2 {
			s += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		if len(p)%2 == 1 {
			s += uint32(p[len(p)-1]) << 8
		}
	}
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// summed writes the checksum of a message, which is zero, at an offset: with that of the addresses for all but ICMP of
// IPv4 (RFC 8200, section 8.1).
func summed(from, to netip.Addr, protocol byte, offset int, message []byte) []byte {
	var pseudo []byte
	if protocol != ICMP {
		pseudo = binary.BigEndian.AppendUint32(slices.Concat(from.AsSlice(), to.AsSlice()), uint32(len(message)))
		pseudo = append(pseudo, 0, 0, 0, protocol)
	}
	c := ^Sum(pseudo, message)
	if c == 0 && protocol == UDP {
		c = 0xffff // RFC 768
	}
	binary.BigEndian.PutUint16(message[offset:], c)
	return message
}

// Datagram is one of UDP, RFC 768.
func Datagram(from, to netip.AddrPort, payload string) []byte {
	var h []byte
	for _, w := range []uint16{from.Port(), to.Port(), uint16(8 + len(payload)), 0} {
		h = binary.BigEndian.AppendUint16(h, w)
	}
	return summed(from.Addr(), to.Addr(), UDP, 6, append(h, payload...))
}

// Flags of TCP (RFC 9293, section 3.1).
const (
	FIN = 1 << iota
	SYN
	RST
	PSH
	ACK
)

// Segment is one of TCP, RFC 9293, without options.
func Segment(from, to netip.AddrPort, flags byte, payload string) []byte {
	h := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from.Port()), to.Port())
	h = append(h, 0, 0, 1, 0, 0, 0, 1, 0, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	return summed(from.Addr(), to.Addr(), TCP, 16, append(h, payload...))
}

// Operations of ARP (RFC 826).
const (
	Request = 1
	Reply   = 2
)

// Broadcast is the address of all on a link.
func Broadcast() net.HardwareAddr { return net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }

// ARP is what is sent in a frame of [TypeARP] about addresses of IPv4 and who has them (RFC 826).
func ARP(operation uint16, mac net.HardwareAddr, address netip.Addr, ofMAC net.HardwareAddr, of netip.Addr) []byte {
	h := binary.BigEndian.AppendUint16([]byte{0, 1, 8, 0, 6, 4}, operation)
	return slices.Concat(h, mac, address.AsSlice(), ofMAC, of.AsSlice())
}

// Solicitation asks who has an address of IPv6 (RFC 4861, section 4.3). It goes to the group of that address, and
// returns where that is.
func Solicitation(mac net.HardwareAddr, from, of netip.Addr) (to net.HardwareAddr, packet []byte) {
	a := of.As16()
	group := netip.AddrFrom16([16]byte{0xff, 2, 11: 1, 12: 0xff, 13: a[13], 14: a[14], 15: a[15]})
	body := slices.Concat(of.AsSlice(), []byte{1, 1}, mac)
	return net.HardwareAddr{0x33, 0x33, 0xff, a[13], a[14], a[15]},
		IP(from, group, ICMPv6, NDHops, Message(from, group, 135, 0, 0, body))
}

// Advertisement says who has an address of IPv6, in the place of what others know (RFC 4861, section 4.4, the flag O).
func Advertisement(mac net.HardwareAddr, of, to netip.Addr) []byte {
	body := slices.Concat(of.AsSlice(), []byte{2, 1}, mac)
	return IP(of, to, ICMPv6, NDHops, Message(of, to, 136, 0, 1<<29, body))
}

// ICMPOf returns the number of ICMP of the family of an address.
func ICMPOf(a netip.Addr) byte {
	if a.Is6() {
		return ICMPv6
	}
	return ICMP
}

// Message is one of ICMP. Rest are the four bytes behind the checksum.
func Message(from, to netip.Addr, kind, code byte, rest uint32, body []byte) []byte {
	m := binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, rest)
	return summed(from, to, ICMPOf(to), 2, append(m, body...))
}

// Behind puts headers of IPv6 before a payload, each of eight bytes (RFC 8200, sections 4.2 to 4.6): options that pad;
// a route that has ended; a fragment that is the whole packet. It returns the number of the first.
func Behind(headers []byte, next byte, payload []byte) (byte, []byte) {
	for _, h := range slices.Backward(headers) {
		one := []byte{next, 0, 1, 4, 0, 0, 0, 0} // PadN
		switch h {
		case Routing:
			one = []byte{next, 0, 253, 0, 0, 0, 0, 0} // of a type for experiments (RFC 4727), no segment left
		case Fragment:
			one = []byte{next, 0, 0, 0, 0x42, 0x44, 0, 0}
		}
		next, payload = h, append(one, payload...)
	}
	return next, payload
}

// Fragments cuts what follows the header of a packet in two, at a multiple of eight bytes. The number is that of the
// packet.
func Fragments(from, to netip.Addr, next byte, payload []byte, at int, number uint16) [][]byte {
	var list [][]byte
	for i, part := range [][]byte{payload[:at], payload[at:]} {
		if !to.Is6() {
			p := IP(from, to, next, Hops, part)
			word := uint16(at / 8 * i)
			if i == 0 {
				word |= 0x2000 // more follow
			}
			binary.BigEndian.PutUint16(p[4:], number)
			binary.BigEndian.PutUint16(p[6:], word)
			binary.BigEndian.PutUint16(p[10:], 0)
			binary.BigEndian.PutUint16(p[10:], ^Sum(p[:20]))
			list = append(list, p)
			continue
		}
		h := binary.BigEndian.AppendUint16([]byte{next, 0}, uint16(at*i)|uint16(1-i))
		h = binary.BigEndian.AppendUint32(h, uint32(number))
		list = append(list, IP(from, to, Fragment, Hops, append(h, part...)))
	}
	return list
}
