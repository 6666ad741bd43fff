package wire

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/proof/packet"
)

// Lengths of headers in bytes: IEEE 802.3 section 3.1.1, RFC 791 section 3.1, RFC 8200 section 3, RFC 768.
const (
	ethernet = 14
	header4  = 20
	header6  = 40
	udp      = 8
)

// An outer is the outermost headers of a frame.
type outer struct {
	v6       bool
	protocol byte
	l4       int // where the header behind that of IP begins, 0 if there is no IP
	body     int // where begins what they carry
}

// headers finds them. A frame that holds no packet of IP has a body behind its type.
func headers(f []byte) outer {
	o := outer{body: ethernet}
	if len(f) < ethernet+header4 {
		return o
	}
	switch kind := binary.BigEndian.Uint16(f[12:]); {
	case kind == packet.TypeIPv4:
		o.protocol, o.l4 = f[ethernet+9], ethernet+int(f[ethernet]&0xf)*4
	case kind == packet.TypeIPv6 && len(f) >= ethernet+header6:
		o.v6, o.protocol, o.l4 = true, f[ethernet+6], ethernet+header6
	default:
		return o
	}
	if o.body = o.l4; o.protocol == packet.UDP {
		o.body += udp
	}
	return o
}

// repair writes the lengths and checksums of the outermost headers of a frame, of which it is not asked whether they
// were right.
func repair(f []byte) []byte {
	if o := headers(f); o.l4 != 0 {
		mend(f[ethernet:], o.l4-ethernet, o.protocol)
	}
	return f
}

// mend writes the lengths and checksums of a packet of IP, and of the datagram of UDP in it, which has none over IPv4
// (RFC 768).
func mend(p []byte, l4 int, protocol byte) {
	v6 := p[0]>>4 == 6
	if v6 {
		binary.BigEndian.PutUint16(p[4:], uint16(len(p)-header6))
	} else {
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(p[10:], 0)
		if l4 >= header4 && len(p) >= l4 {
			binary.BigEndian.PutUint16(p[10:], ^packet.Sum(p[:l4]))
		}
	}
	if protocol != packet.UDP || len(p) < l4+udp {
		return
	}
	d := p[l4:]
	binary.BigEndian.PutUint16(d[4:], uint16(len(d)))
	binary.BigEndian.PutUint16(d[6:], 0)
	if !v6 {
		return
	}
	pseudo := binary.BigEndian.AppendUint32(bytes.Clone(p[8:header6]), uint32(len(d))) // RFC 8200, section 8.1
	sum := ^packet.Sum(append(pseudo, 0, 0, 0, packet.UDP), d)
	if sum == 0 {
		sum = 0xffff // RFC 768
	}
	binary.BigEndian.PutUint16(d[6:], sum)
}

// inner is where in a frame the packet of a container begins, whose payload begins at some place.
func inner(at int, v6 bool) int {
	if v6 {
		return at - udp - header6
	}
	return at - udp - header4
}

// readable says whether at that place of a frame a payload has the headers of its packet before it.
func readable(f []byte, at int, v6 bool) bool {
	begin := inner(at, v6)
	return begin >= ethernet && f[begin]>>4 == map[bool]byte{false: 4, true: 6}[v6]
}

// remade puts another payload of the same length in the place of one that can be read, with all lengths and checksums.
func remade(f []byte, at int, payload []byte, v6 bool) []byte {
	f = bytes.Clone(f)
	copy(f[at:], payload)
	begin := inner(at, v6)
	mend(f[begin:at+len(payload)], at-udp-begin, packet.UDP)
	return repair(f)
}

// shortened cuts a frame after that number of bytes, and corrects the lengths and checksums that it still has.
func shortened(f []byte, size, at int, v6 bool) []byte {
	f = bytes.Clone(f[:size])
	if at > 0 && at <= size {
		begin := inner(at, v6)
		mend(f[begin:], at-udp-begin, packet.UDP)
	}
	return repair(f)
}

// from gives a frame another sender.
func from(f []byte, mac net.HardwareAddr, v4, v6 netip.Addr) []byte {
	f = bytes.Clone(f)
	copy(f[6:], mac)
	switch o := headers(f); {
	case o.l4 == 0:
	case o.v6:
		copy(f[ethernet+8:], v6.AsSlice())
	default:
		copy(f[ethernet+12:], v4.AsSlice())
	}
	return repair(f)
}

// stranger is an address beside another one that no host has.
func stranger(a []byte) netip.Addr {
	other := bytes.Clone(a)
	other[len(other)-1] = 0xfa
	one, _ := netip.AddrFromSlice(other)
	return one
}

// framed puts a packet of IP into a frame like another one.
func framed(like, p []byte) []byte {
	kind := uint16(packet.TypeIPv4)
	if p[0]>>4 == 6 {
		kind = packet.TypeIPv6
	}
	return packet.Frame(slices.Clone(like[:6]), slices.Clone(like[6:12]), kind, p)
}

// readdressed gives a packet the outer addresses of a frame of the same family; nil: it has them, or there are none.
func readdressed(f, like []byte) []byte {
	a, b := headers(f), headers(like)
	if a.l4 == 0 || b.l4 == 0 || a.v6 != b.v6 {
		return nil
	}
	first, last := ethernet+12, ethernet+header4
	if a.v6 {
		first, last = ethernet+8, ethernet+header6
	}
	if bytes.Equal(f[first:last], like[first:last]) {
		return nil
	}
	f = bytes.Clone(f)
	copy(f[first:last], like[first:last])
	return repair(f)
}

// fragments cuts the largest packet of IPv4 or IPv6 with the addresses of a frame into frames that a link takes
// (RFC 791, section 3.2; RFC 8200, section 4.5).
func fragments(like []byte, mtu int) (list [][]byte) {
	const most = 65535
	o := headers(like)
	if o.l4 == 0 {
		return nil
	}
	size := (mtu - header6 - 8) / 8 * 8
	total := most - (o.l4 - ethernet)
	whole := append(bytes.Clone(like[ethernet:o.l4]), make([]byte, total)...)
	copy(whole[o.l4-ethernet:], like[o.l4:min(len(like), o.l4+64)])
	mend(whole, o.l4-ethernet, o.protocol)
	whole = whole[o.l4-ethernet:]
	for at := 0; at < total; at += size {
		part, more := whole[at:min(total, at+size)], at+size < total
		head := bytes.Clone(like[:o.l4])
		if o.v6 {
			word := uint16(at)
			if more {
				word |= 1
			}
			head[ethernet+6] = packet.Fragment
			head = binary.BigEndian.AppendUint16(append(head, o.protocol, 0), word)
			head = append(head, 0x42, 0x45, 0, 1)
			binary.BigEndian.PutUint16(head[ethernet+4:], uint16(len(part)+8))
			list = append(list, append(head, part...))
			continue
		}
		word := uint16(at / 8)
		if more {
			word |= 0x2000
		}
		binary.BigEndian.PutUint16(head[ethernet+2:], uint16(o.l4-ethernet+len(part)))
		binary.BigEndian.PutUint16(head[ethernet+4:], 0x4245)
		binary.BigEndian.PutUint16(head[ethernet+6:], word)
		binary.BigEndian.PutUint16(head[ethernet+10:], 0)
		binary.BigEndian.PutUint16(head[ethernet+10:], ^packet.Sum(head[ethernet:o.l4]))
		list = append(list, append(head, part...))
	}
	return list
}
