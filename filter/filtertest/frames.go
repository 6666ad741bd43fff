package filtertest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
)

// Types of frames: include/uapi/linux/if_ether.h.
const (
	typeIPv4    = 0x0800
	typeIPv6    = 0x86dd
	typeVLAN    = 0x8100 // 802.1Q
	typeService = 0x88a8 // 802.1ad, the outer tag of QinQ
	typePPPoE   = 0x8864 // a session
	typeOwn     = 0x88b5 // for experiments (IEEE 802, section 9.2.3)
)

// Numbers of protocols and headers (IANA).
const (
	protocolICMP       = 1
	protocolUDP        = 17
	protocolICMPv6     = 58
	headerHopByHop     = 0
	headerRouting      = 43
	headerFragment     = 44
	headerDestinations = 60
)

// hops is the time to live of packets, and ndHops that of neighbour discovery, which nobody has forwarded (RFC 4861, section 7.1).
const (
	hops   = 64
	ndHops = 255
)

// frame is what is sent over a link.
func frame(to, from net.HardwareAddr, kind uint16, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint16(slices.Concat(to, from), kind), payload...)
}

// tagged puts tags between the addresses of a frame and its type: each is a type and the number of a VLAN.
func tagged(frame []byte, tags ...[2]uint16) []byte {
	var words []byte
	for _, t := range tags {
		words = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(words, t[0]), t[1])
	}
	return slices.Insert(slices.Clone(frame), 12, words...)
}

// kindOf is the type of a frame that holds a packet of the family of an address.
func kindOf(a netip.Addr) uint16 {
	if a.Is6() {
		return typeIPv6
	}
	return typeIPv4
}

// session puts a packet into a session of PPPoE (RFC 2516, section 4; RFC 1332, RFC 5072).
func session(a netip.Addr, packet []byte) []byte {
	kind := uint16(0x0021)
	if a.Is6() {
		kind = 0x0057
	}
	h := binary.BigEndian.AppendUint16([]byte{0x11, 0, 0, 1}, uint16(len(packet)+2))
	return append(binary.BigEndian.AppendUint16(h, kind), packet...)
}

// packet puts a header of IP before a payload: RFC 791, section 3.1; RFC 8200, section 3.
func packet(from, to netip.Addr, next, hops byte, payload []byte) []byte {
	if to.Is6() {
		h := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(payload)))
		return slices.Concat(append(h, next, hops), from.AsSlice(), to.AsSlice(), payload)
	}
	h := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(20+len(payload)))
	h = append(h, 0x42, 0x43, 0, 0, hops, next, 0, 0)
	h = slices.Concat(h, from.AsSlice(), to.AsSlice())
	binary.BigEndian.PutUint16(h[10:], ^sum(h))
	return append(h, payload...)
}

// sum is the sum of words with the carry going round (RFC 1071).
func sum(parts ...[]byte) uint16 {
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

// summed writes the checksum of a message, which is zero, at an offset: with that of the addresses for all but ICMP of IPv4 (RFC 8200, section 8.1).
func summed(from, to netip.Addr, protocol byte, offset int, message []byte) []byte {
	var pseudo []byte
	if protocol != protocolICMP {
		pseudo = binary.BigEndian.AppendUint32(slices.Concat(from.AsSlice(), to.AsSlice()), uint32(len(message)))
		pseudo = append(pseudo, 0, 0, 0, protocol)
	}
	c := ^sum(pseudo, message)
	if c == 0 && protocol == protocolUDP {
		c = 0xffff // RFC 768
	}
	binary.BigEndian.PutUint16(message[offset:], c)
	return message
}

// datagram is one of UDP, RFC 768.
func datagram(from, to netip.AddrPort, payload string) []byte {
	var h []byte
	for _, w := range []uint16{from.Port(), to.Port(), uint16(8 + len(payload)), 0} {
		h = binary.BigEndian.AppendUint16(h, w)
	}
	return summed(from.Addr(), to.Addr(), protocolUDP, 6, append(h, payload...))
}

// icmpOf is the number of ICMP of the family of an address.
func icmpOf(a netip.Addr) byte {
	if a.Is6() {
		return protocolICMPv6
	}
	return protocolICMP
}

// message is one of ICMP: rest are the four bytes behind the checksum.
func message(from, to netip.Addr, kind, code byte, rest uint32, body []byte) []byte {
	m := binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, rest)
	return summed(from, to, icmpOf(to), 2, append(m, body...))
}

// tooBig quotes a packet that was too big: RFC 792 and RFC 1191, section 4; RFC 4443, section 3.2. The MTU it says is that of the link: nobody takes notice.
func tooBig(from, to netip.Addr, mtu int, quoted []byte) []byte {
	if to.Is6() {
		return message(from, to, 2, 0, uint32(mtu), quoted)
	}
	return message(from, to, 3, 4, uint32(mtu), quoted)
}

// behind puts headers of IPv6 before a payload, each of eight bytes (RFC 8200, sections 4.2 to 4.6): options that pad; a route that has ended; a fragment that is the whole packet. It
// returns the number of the first.
func behind(headers []byte, next byte, payload []byte) (byte, []byte) {
	for _, h := range slices.Backward(headers) {
		one := []byte{next, 0, 1, 4, 0, 0, 0, 0} // PadN
		switch h {
		case headerRouting:
			one = []byte{next, 0, 253, 0, 0, 0, 0, 0} // of a type for experiments (RFC 4727), no segment left
		case headerFragment:
			one = []byte{next, 0, 0, 0, 0x42, 0x44, 0, 0}
		}
		next, payload = h, append(one, payload...)
	}
	return next, payload
}

// fragmentsOf cuts what follows the header of a packet in two, at a multiple of eight bytes. The number is that of the packet.
func fragmentsOf(from, to netip.Addr, next byte, payload []byte, at int, number uint16) [][]byte {
	var list [][]byte
	for i, part := range [][]byte{payload[:at], payload[at:]} {
		if !to.Is6() {
			p := packet(from, to, next, hops, part)
			word := uint16(at / 8 * i)
			if i == 0 {
				word |= 0x2000 // more follow
			}
			binary.BigEndian.PutUint16(p[4:], number)
			binary.BigEndian.PutUint16(p[6:], word)
			binary.BigEndian.PutUint16(p[10:], 0)
			binary.BigEndian.PutUint16(p[10:], ^sum(p[:20]))
			list = append(list, p)
			continue
		}
		h := binary.BigEndian.AppendUint16([]byte{next, 0}, uint16(at*i)|uint16(1-i))
		h = binary.BigEndian.AppendUint32(h, uint32(number))
		list = append(list, packet(from, to, headerFragment, hops, append(h, part...)))
	}
	return list
}
