package watch

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes of routes and rules that the library has no names for, or that are read by number
// (include/uapi/linux/rtnetlink.h, fib_rules.h).
const (
	rtaCacheInfo = 12 // how old it is
	rtaPref      = 20
	rtaPad       = 26
	rtaExpires   = 23

	fraTable    = 15
	fraPriority = 6
)

// tables are those with names (rt_tables of iproute2).
func table(n uint32) string {
	switch n {
	case unix.RT_TABLE_MAIN:
		return "main"
	case unix.RT_TABLE_LOCAL:
		return "local"
	case unix.RT_TABLE_DEFAULT:
		return "default"
	}
	return fmt.Sprint(n)
}

// kinds of routes (RTN_…, include/uapi/linux/rtnetlink.h).
func routeKind(n byte) string {
	kinds := []string{
		"unspec", "", "local", "broadcast", "anycast", "multicast", "blackhole", "unreachable", "prohibit", "throw", "nat",
	}
	if int(n) < len(kinds) {
		return kinds[n]
	}
	return fmt.Sprintf("kind %d", n)
}

// protoKernel is who makes the routes that follow from addresses (RTPROT_KERNEL).
const protoKernel = 2

// route puts a route into words. One that the kernel keeps for a connection is none (RTM_F_CLONED).
func (n names) route(m []byte) (t thing, value string) {
	rest := from(m, unix.SizeofRtMsg)
	if rest == nil || binary.NativeEndian.Uint32(m[8:])&unix.RTM_F_CLONED != 0 {
		return thing{}, ""
	}
	in := uint32(m[4])
	var to, out, metric string
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if kind := routeKind(m[7]); kind != "" {
		say("%s", kind)
	}
	for kind, data := range attributes(rest) {
		switch kind {
		case unix.RTA_DST:
			to = fmt.Sprintf("%s/%d", ip(data), m[1])
		case unix.RTA_SRC:
			to += fmt.Sprintf(" from %s/%d", ip(data), m[2])
		case unix.RTA_TABLE:
			in = u32(data)
		case unix.RTA_PRIORITY:
			metric = fmt.Sprintf(", metric %d", u32(data))
		case unix.RTA_OIF:
			out = n.of(int(u32(data)))
		case unix.RTA_GATEWAY:
			say("via %s", ip(data))
		case unix.RTA_VIA:
			say("via %s", ip(from(data, 2)))
		case unix.RTA_PREFSRC:
			say("source %s", ip(data))
		case unix.RTA_MULTIPATH:
			say("%s", n.hops(data))
		case rtaCacheInfo, rtaPref, rtaPad, rtaExpires:
		default:
			say("attribute %d %s", kind, number(data))
		}
	}
	if out != "" {
		say("through %s", out)
	}
	if m[0] == unix.AF_INET6 && strings.HasPrefix(to, "fd") { // those of a link have a route for each link
		out = ""
	}
	if to == "" {
		to = "default (" + familyName(m[0]) + ")"
		out = ""
	}
	if m[0] == unix.AF_INET6 && out != "" {
		to += " on " + out
	}
	if m[3] != 0 {
		to += fmt.Sprintf(" tos %d", m[3])
	}
	if m[5] != protoKernel {
		say("protocol %d", m[5])
	}
	slices.Sort(parts)
	return thing{"", "route to " + to + metric + ", table " + table(in)}, strings.Join(parts, ", ")
}

// hops are the next hops of a route that has several.
func (n names) hops(b []byte) string {
	var list []string
	for len(b) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			break
		}
		hop := "through " + n.of(int(binary.NativeEndian.Uint32(b[4:])))
		if via := attribute(b[unix.SizeofRtNexthop:size], unix.RTA_GATEWAY); via != nil {
			hop = "via " + ip(via) + " " + hop
		}
		list = append(list, hop)
		b = b[min(len(b), align(size)):]
	}
	slices.Sort(list)
	return strings.Join(list, " or ")
}

func familyName(family byte) string {
	switch family {
	case unix.AF_INET:
		return "ipv4"
	case unix.AF_INET6:
		return "ipv6"
	}
	return fmt.Sprintf("family %d", family)
}

// follows says that a route of the local table comes by itself with an address that is known: the kernel makes it when
// it has made sure that nobody else has the address (net/ipv6/addrconf.c, addrconf_dad_completed), which is seconds
// later.
func (n names) follows(m []byte, addresses state) bool {
	rest := from(m, unix.SizeofRtMsg)
	if rest == nil || m[5] != protoKernel || m[0] != unix.AF_INET6 {
		return false
	}
	to, ok := netip.AddrFromSlice(attribute(rest, unix.RTA_DST))
	if !ok {
		return false
	}
	link := n.of(int(u32(attribute(rest, unix.RTA_OIF))))
	for t := range addresses {
		at, of, _ := strings.Cut(strings.TrimPrefix(t.what, "address "), " of ")
		own, err := netip.ParsePrefix(at)
		// the address itself, and that of all routers of its prefix (RFC 4291, section 2.6.1)
		if err == nil && (own.Addr() == to && (of == link || link == "lo") || own.Masked().Addr() == to && of == link) {
			return true
		}
	}
	return to.IsMulticast() && m[7] == unix.RTN_MULTICAST && m[1] == 8 // ff00::/8 of each link that is up
}

// rule puts a rule for routes into words.
func (n names) rule(m []byte) (thing, string) {
	rest := from(m, unix.SizeofRtMsg)
	if rest == nil {
		return thing{}, ""
	}
	in, priority := uint32(m[4]), uint32(0)
	var parts []string
	for kind, data := range attributes(rest) {
		switch kind {
		case fraTable:
			in = u32(data)
		case fraPriority:
			priority = u32(data)
		case 1: // FRA_DST
			parts = append(parts, fmt.Sprintf("to %s/%d", ip(data), m[1]))
		case 2: // FRA_SRC
			parts = append(parts, fmt.Sprintf("from %s/%d", ip(data), m[2]))
		case 3: // FRA_IIFNAME
			parts = append(parts, "in by "+text(data))
		case 17: // FRA_OIFNAME
			parts = append(parts, "out by "+text(data))
		case 10: // FRA_FWMARK
			parts = append(parts, "mark "+number(data))
		case 14, 18, 21: // FRA_SUPPRESS_PREFIXLEN, FRA_PAD, FRA_PROTOCOL: who made it
		default:
			parts = append(parts, fmt.Sprintf("attribute %d %s", kind, number(data)))
		}
	}
	slices.Sort(parts)
	what := fmt.Sprintf("rule for routes, %s, priority %d", familyName(m[0]), priority)
	if len(parts) > 0 {
		what += ", " + strings.Join(parts, ", ")
	}
	return thing{"", what}, fmt.Sprintf("table %s, action %d", table(in), m[7])
}

// neighbour puts an entry of a neighbour, or of the forwarding table of a bridge or tunnel, into words. One that has no
// address (yet, or any more) has no value.
func (n names) neighbour(m []byte) (thing, string) {
	rest := from(m, unix.SizeofNdMsg)
	if rest == nil {
		return thing{}, ""
	}
	link := n.of(int(binary.NativeEndian.Uint32(m[4:])))
	state, flags := binary.NativeEndian.Uint16(m[8:]), m[10]
	to, mac := attribute(rest, unix.NDA_DST), net.HardwareAddr(attribute(rest, unix.NDA_LLADDR))
	if m[0] == unix.AF_BRIDGE {
		return n.forwarded(link, rest, state, flags)
	}
	t := thing{"link " + link, fmt.Sprintf("neighbour %s on %s", ip(to), link)}
	if flags&unix.NTF_PROXY != 0 {
		return thing{t.of, fmt.Sprintf("proxy for neighbour %s on %s", ip(to), link)}, "present" + permanently
	}
	switch {
	case state&unix.NUD_NOARP != 0 && (len(to) == 0 || isGroup(to)): // what the kernel has for itself
		return thing{}, ""
	case len(mac) == 0 || state&(unix.NUD_INCOMPLETE|unix.NUD_FAILED) != 0:
		return t, ""
	case state&unix.NUD_PERMANENT != 0:
		return t, mac.String() + permanently
	}
	return t, mac.String()
}

func isGroup(b []byte) bool {
	to, ok := netip.AddrFromSlice(b)
	return !ok || to.IsMulticast() || to == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// forwarded is an entry of a forwarding table. What a link itself receives, groups among it, is none.
func (n names) forwarded(link string, b []byte, state uint16, flags byte) (thing, string) {
	mac := net.HardwareAddr(attribute(b, unix.NDA_LLADDR))
	if len(mac) == 0 || flags&unix.NTF_SELF != 0 && mac[0]&1 != 0 {
		return thing{}, ""
	}
	table, value := link, ""
	if master := attribute(b, unix.NDA_MASTER); master != nil {
		table, value = n.of(int(u32(master))), "by "+link
	}
	what := fmt.Sprintf("forwarding of %s by %s", mac, table)
	if vlan := attribute(b, unix.NDA_VLAN); vlan != nil {
		what += ", VLAN " + number(vlan)
	}
	if to := attribute(b, unix.NDA_DST); to != nil {
		value = "to " + ip(to)
		if slices.Max(mac) == 0 { // to each of several
			what += " " + value
		}
	}
	if value == "" {
		value = "present"
	}
	if state&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0 {
		value += permanently
	}
	return thing{"link " + link, what}, value
}

// Messages about next hops (include/uapi/linux/nexthop.h).
const (
	hopHeader = 8 // struct nhmsg
	hopNumber = 1 // NHA_ID
)

// hop puts a next hop into words.
func (n names) hop(m []byte) (thing, string) {
	rest := from(m, hopHeader)
	id := attribute(rest, hopNumber)
	if id == nil {
		return thing{}, ""
	}
	var parts []string
	for kind, data := range attributes(rest) {
		switch kind {
		case 2: // NHA_GROUP: numbers of other next hops, with their weights
			parts = append(parts, fmt.Sprintf("group %x", data))
		case 4: // NHA_BLACKHOLE
			parts = append(parts, "blackhole")
		case 5: // NHA_OIF
			parts = append(parts, "through "+n.of(int(u32(data))))
		case 6: // NHA_GATEWAY
			parts = append(parts, "via "+ip(data))
		case 3, 7, 8, 11: // NHA_GROUP_TYPE, NHA_ENCAP_TYPE, NHA_ENCAP, NHA_FDB
			parts = append(parts, fmt.Sprintf("attribute %d %s", kind, number(data)))
		}
	}
	return thing{"", "next hop number " + number(id)}, fmt.Sprintf("protocol %d, %s", m[2], strings.Join(parts, ", "))
}
