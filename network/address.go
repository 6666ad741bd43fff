package network

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// UnderlayAddr returns the addresses of a host on the underlay: 198.18.0.H/16 (RFC 2544 section C.2.2 sets the range
// aside for benchmarks) and fd00:198:18::H/48 (RFC 4193).
func UnderlayAddr(host int) (v4, v6 netip.Prefix) {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(host)}), 16),
		netip.PrefixFrom(ipv6(digits(198), digits(18), 0, digits(host)), 48)
}

// SpanAddr returns the addresses of a host on a span with the given number of spans below it: 198.19.L.H/24 (of the
// range of RFC 2544, appendix C.2.2, the half that the underlay leaves) and fd00:198:19:L::H/64.
func SpanAddr(below, host int) (v4, v6 netip.Prefix) {
	a := ipv6(digits(198), digits(19), 0, digits(host)).As16()
	a[7] = byte(below)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, byte(below), byte(host)}), 24),
		netip.PrefixFrom(netip.AddrFrom16(a), 64)
}

// Gateway returns the addresses of a host within the range of its containers, which has their length:
// 10.H.0.1/16 and fd00:10:H::1/64.
func Gateway(host int) (v4, v6 netip.Prefix) {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(host), 0, 1}), 16),
		netip.PrefixFrom(ipv6(digits(10), digits(host), 0, 1), 64)
}

// ContainerAddr returns the addresses of container i of a host, with the length of their range: 10.H.1.0+i/16 and
// fd00:10:H::1:0+i/64.
func ContainerAddr(host, i int) (v4, v6 netip.Prefix) {
	low := 1<<8 + i
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(host), byte(low >> 8), byte(low)}), 16),
		netip.PrefixFrom(ipv6(digits(10), digits(host), 1, uint16(i)), 64)
}

// Limits of what has an address in the range of the underlay without being a host: see [SegmentAddr].
const (
	// MaxSegmentHosts is the number of hosts whose containers have room there.
	MaxSegmentHosts = 16
	// MaxSegmentContainers is the number of containers of a host that have room there.
	MaxSegmentContainers = 15 << 8
)

// SegmentAddr returns the addresses of container i of a host whose containers are neighbours of the hosts on the
// underlay, with the length of its range: 198.18.H.i/16 and fd00:198:18::H:i/48. Hosts have the zero where containers
// have H ([UnderlayAddr]), so that none has the address of a container. Containers from 256 on are 198.18.H+16.0 and so
// on, which leaves 16 hosts 3840 containers each and ends before the broadcast address of the range.
func SegmentAddr(host, i int) (v4, v6 netip.Prefix) {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(host + i>>8*MaxSegmentHosts), byte(i)}), 16),
		netip.PrefixFrom(ipv6(digits(198), digits(18), digits(host), uint16(i)), 48)
}

// ipv6 is fd00:A:B::C:D.
func ipv6(a, b, c, d uint16) netip.Addr {
	var x [16]byte
	for i, v := range []uint16{0xfd00, a, b, 0, 0, 0, c, d} {
		binary.BigEndian.PutUint16(x[2*i:], v)
	}
	return netip.AddrFrom16(x)
}

// digits is the number whose hexadecimal digits are the decimal digits of n: 198 is 0x198.
func digits(n int) uint16 {
	var x uint16
	for shift := 0; n > 0; n, shift = n/10, shift+4 {
		x |= uint16(n%10) << shift
	}
	return x
}

// MAC returns the address that a link has under a seed: locally administered and unicast (IEEE 802, section 8.2),
// different for each name and each seed. A name says where the link is: "host1", "src0", "eth0".
func MAC(seed uint64, name ...string) string {
	b := binary.BigEndian.AppendUint64(nil, seed)
	for _, n := range name {
		b = fmt.Appendf(b, "%d:%s", len(n), n)
	}
	sum := sha256.Sum256(b)
	mac := net.HardwareAddr(sum[:6])
	mac[0] = mac[0]&^0x01 | 0x02
	return mac.String()
}
