package watch

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes of links that the library has no names for (include/uapi/linux/if_link.h).
const (
	iflaPromiscuity = 30
	iflaXDP         = 43
	iflaXDPProgram  = 4
	iflaInetConf    = 1
	iflaInet6Conf   = 2
	iflaInet6Mode   = 8 // how link-local addresses are made
	skipStatistics  = 8 // RTEXT_FILTER_SKIP_STATS, include/uapi/linux/rtnetlink.h
)

// linkRequest asks for all links without their counters.
func linkRequest() []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	b = binary.NativeEndian.AppendUint16(b, unix.SizeofNlAttr+4)
	b = binary.NativeEndian.AppendUint16(b, unix.IFLA_EXT_MASK)
	return binary.NativeEndian.AppendUint32(b, skipStatistics)
}

// A leaf is where in a message an attribute is whose value matters. The names of attributes of kinds of links depend on
// the kind.
type leaf struct {
	part part
	kind uint16
}

type part uint8

const (
	partHead part = iota // what is no attribute
	partLink
	partData // of the kind of link
	partPort // of the kind of its master
	partIPv4
	partIPv6
)

// The things of a head.
const (
	headFlags uint16 = iota
	headType
)

// flags are those that somebody sets: others follow from them (include/uapi/linux/if.h).
const flags = unix.IFF_UP | unix.IFF_NOARP | unix.IFF_PROMISC | unix.IFF_ALLMULTI

// walk visits what matters of a link. What moves by itself is left out: counters, timers, whether it has a carrier.
func walk(m []byte, visit func(leaf, []byte)) (index int) {
	if len(m) < unix.SizeofIfInfomsg {
		return 0
	}
	index = int(int32(binary.NativeEndian.Uint32(m[4:])))
	kept := binary.NativeEndian.Uint32(m[8:]) & flags
	visit(leaf{partHead, headFlags}, binary.NativeEndian.AppendUint32(nil, kept))
	visit(leaf{partHead, headType}, m[2:4])
	for kind, data := range attributes(m[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_ADDRESS, unix.IFLA_IFNAME, unix.IFLA_MTU, unix.IFLA_LINK, unix.IFLA_QDISC, unix.IFLA_MASTER,
			unix.IFLA_TXQLEN, iflaPromiscuity, unix.IFLA_LINK_NETNSID, unix.IFLA_PROTO_DOWN:
			visit(leaf{partLink, kind}, data)
		case iflaXDP:
			if program := attribute(data, iflaXDPProgram); program != nil {
				visit(leaf{partLink, kind}, program)
			}
		case unix.IFLA_LINKINFO:
			walkKind(data, visit)
		case unix.IFLA_AF_SPEC:
			walkFamilies(data, visit)
		}
	}
	return index
}

// walkKind visits what matters of the kind of a link and of that of its master.
func walkKind(b []byte, visit func(leaf, []byte)) {
	kind, master := text(attribute(b, unix.IFLA_INFO_KIND)), text(attribute(b, unix.IFLA_INFO_SLAVE_KIND))
	for k, data := range attributes(b) {
		switch k {
		case unix.IFLA_INFO_KIND:
			visit(leaf{partLink, unix.IFLA_LINKINFO}, data)
		case unix.IFLA_INFO_DATA:
			for k, data := range attributes(data) {
				if kind != bridge || !slices.Contains(bridgeMoves(), k) {
					visit(leaf{partData, k}, data)
				}
			}
		case unix.IFLA_INFO_SLAVE_DATA:
			for k, data := range attributes(data) {
				if master != bridge || !slices.Contains(portMoves(), k) {
					visit(leaf{partPort, k}, data)
				}
			}
		}
	}
}

const bridge = "bridge"

// walkFamilies visits the variables of a link.
func walkFamilies(b []byte, visit func(leaf, []byte)) {
	if own := attribute(attribute(b, unix.AF_INET), iflaInetConf); own != nil {
		visit(leaf{partIPv4, iflaInetConf}, own)
	}
	six := attribute(b, unix.AF_INET6)
	for _, kind := range []uint16{iflaInet6Conf, iflaInet6Mode} {
		if own := attribute(six, kind); own != nil {
			visit(leaf{partIPv6, kind}, own)
		}
	}
}

// bridgeMoves are the attributes of a bridge that move by themselves: timers, changes of the topology, how many
// addresses it has learned (enum of IFLA_BR_…, include/uapi/linux/if_link.h).
func bridgeMoves() []uint16 { return []uint16{14, 15, 16, 17, 18, 19, 47, 48} }

// portMoves are those of a port of a bridge (enum of IFLA_BRPORT_…).
func portMoves() []uint16 { return []uint16{19, 20, 21, 22, 23, 38, 41} }

// digest sums up what matters of a link.
func digest(h *maphash.Hash, m []byte) {
	var head [6]byte
	index := walk(m, func(l leaf, data []byte) {
		head[0] = byte(l.part)
		binary.NativeEndian.PutUint16(head[1:], l.kind)
		_, _ = h.Write(head[:3])
		_, _ = h.Write(data)
	})
	binary.NativeEndian.PutUint32(head[:], uint32(index))
	_, _ = h.Write(head[:4])
}

// A linkName is what a link is called, and of which kind it is.
type linkName struct{ name, kind string }

// names are the links of a namespace by index.
type names map[int]linkName

// of says the link of an index.
func (n names) of(index int) string {
	if known, ok := n[index]; ok {
		return known.name
	}
	return fmt.Sprintf("link number %d", index)
}

// note keeps the name of a link.
func (n names) note(m []byte) (index int, name, kind string) {
	index = walk(m, func(l leaf, data []byte) {
		switch l {
		case leaf{partLink, unix.IFLA_IFNAME}:
			name = text(data)
		case leaf{partLink, unix.IFLA_LINKINFO}:
			kind = text(data)
		}
	})
	if name != "" {
		n[index] = linkName{name, kind}
	}
	return index, name, kind
}

// link puts what matters of a link into words. Names has it, and its master.
func (n names) link(into state, m []byte) {
	index, name, kind := n.note(m)
	if kind == "" {
		kind = "device"
	}
	own := "link " + name
	into.put(thing{own, own}, fmt.Sprintf("%s, number %d", kind, index))
	put := func(what, value string) {
		if value != "" {
			into.put(thing{own, what + " of " + name}, value)
		}
	}
	walk(m, func(l leaf, data []byte) {
		switch l.part {
		case partHead:
			if l.kind == headFlags {
				put("state", saysFlags(u32(data)))
			}
		case partLink:
			put(n.saysLink(l.kind, data))
		case partData:
			put(setting(kind, bridgeNames(), bridge, l.kind), number(data))
		case partPort:
			put(setting("port", portNames(), "port", l.kind), number(data))
		case partIPv4:
			into.put(families()[0].thing(name), string(data))
		case partIPv6:
			if l.kind == iflaInet6Conf {
				into.put(families()[1].thing(name), string(data))
			} else {
				put("how link-local addresses are made", number(data))
			}
		}
	})
}

func saysFlags(f uint32) string {
	s := "down"
	if f&unix.IFF_UP != 0 {
		s = "up"
	}
	for _, one := range []struct {
		flag uint32
		name string
	}{{unix.IFF_NOARP, "no ARP"}, {unix.IFF_PROMISC, "promiscuous"}, {unix.IFF_ALLMULTI, "all multicast"}} {
		if f&one.flag != 0 {
			s += ", " + one.name
		}
	}
	return s
}

// saysLink puts an attribute of a link into words.
func (n names) saysLink(kind uint16, data []byte) (what, value string) {
	switch kind {
	case unix.IFLA_ADDRESS:
		return "MAC address", net.HardwareAddr(data).String()
	case unix.IFLA_MTU:
		return "MTU", number(data)
	case unix.IFLA_LINK:
		return "number of the link below or at the other end", number(data)
	case unix.IFLA_QDISC:
		return "queueing discipline", text(data)
	case unix.IFLA_MASTER:
		return "master", n.of(int(u32(data)))
	case unix.IFLA_TXQLEN:
		return "queue length", number(data)
	case iflaPromiscuity:
		return "number of listeners to all packets", number(data)
	case unix.IFLA_LINK_NETNSID:
		return "namespace of the other end", number(data)
	case unix.IFLA_PROTO_DOWN:
		return "protocol", map[bool]string{true: "down", false: "up"}[number(data) != "0"]
	case iflaXDP:
		return "XDP program", "number " + number(data)
	}
	return "", ""
}

// setting names an attribute of a kind of link.
func setting(kind string, known map[uint16]string, of string, number uint16) string {
	if name, ok := known[number]; ok && kind == of {
		return kind + " setting " + name
	}
	return fmt.Sprintf("%s setting %d", kind, number)
}

// bridgeNames are those of ip-link(8).
func bridgeNames() map[uint16]string {
	return map[uint16]string{
		4: "ageing_time", 5: "stp_state", 7: "vlan_filtering", 9: "group_fwd_mask", 22: "mcast_router", 23: "mcast_snooping",
		36: "nf_call_iptables", 37: "nf_call_ip6tables", 38: "nf_call_arptables", 39: "vlan_default_pvid",
	}
}

// portNames are those of bridge(8).
func portNames() map[uint16]string {
	return map[uint16]string{
		1: "state", 4: "hairpin", 5: "guard", 6: "root_block", 8: "learning", 9: "flood", 10: "proxy_arp", 27: "mcast_flood",
		29: "vlan_tunnel", 30: "bcast_flood", 32: "neigh_suppress", 33: "isolated", 34: "backup_port", 39: "locked",
	}
}

// A family of variables that each link has.
type variables struct {
	prefix string
	first  int // the number of the first
	names  map[int]string
}

func families() []variables {
	return []variables{{"net.ipv4.conf.", 1, ipv4Names()}, {"net.ipv6.conf.", 0, ipv6Names()}}
}

// thing is the variables of a link together. Their value is that of the kernel: four bytes each.
func (v variables) thing(link string) thing { return thing{"link " + link, v.prefix + link + ".*"} }

// expand lists what has changed of variables that are one thing, and leaves other changes as they are.
func expand(list []Change) []Change {
	var all []Change
	for _, c := range list {
		at := -1
		for i, v := range families() {
			if strings.HasPrefix(c.What, v.prefix) && strings.HasSuffix(c.What, ".*") {
				at = i
			}
		}
		if at < 0 || c.Before == "" || c.After == "" && c.Between == "" {
			all = append(all, c)
			continue
		}
		all = append(all, families()[at].changes(c)...)
	}
	return all
}

func (v variables) changes(c Change) (list []Change) {
	value := func(s string, i int) string {
		if i+4 > len(s) {
			return ""
		}
		return strconv.Itoa(int(int32(binary.NativeEndian.Uint32([]byte(s[i:])))))
	}
	for i := 0; i+4 <= len(c.Before); i += 4 {
		name := v.names[v.first+i/4]
		if name == "" {
			name = fmt.Sprintf("(number %d)", v.first+i/4)
		}
		one := Change{
			What: strings.TrimSuffix(c.What, "*") + name, Before: value(c.Before, i), After: value(c.After, i),
			Between: value(c.Between, i), Passed: c.Passed,
		}
		if c.Passed && one.Before != one.Between || !c.Passed && one.Before != one.After {
			list = append(list, one)
		}
	}
	return list
}

// set returns the variables of a value with one of them changed.
func set(value string, i int, to uint32) string {
	b := []byte(value)
	if i < 0 || 4*i+4 > len(b) {
		return value
	}
	binary.NativeEndian.PutUint32(b[4*i:], to)
	return string(b)
}

// ipv4Names are variables by their number (IPV4_DEVCONF_…, include/uapi/linux/ip.h).
func ipv4Names() map[int]string {
	return map[int]string{
		1: "forwarding", 2: "mc_forwarding", 3: "proxy_arp", 4: "accept_redirects", 5: "secure_redirects",
		6: "send_redirects", 7: "shared_media", 8: "rp_filter", 9: "accept_source_route", 10: "bootp_relay",
		11: "log_martians", 12: "tag", 13: "arp_filter", 14: "medium_id", 15: "disable_xfrm", 16: "disable_policy",
		18: "arp_announce", 19: "arp_ignore", 20: "promote_secondaries", 21: "arp_accept", 22: "arp_notify",
		23: "accept_local", 24: "src_valid_mark", 25: "proxy_arp_pvlan", 26: "route_localnet",
		29: "ignore_routes_with_linkdown", 30: "drop_unicast_in_l2_multicast", 31: "drop_gratuitous_arp",
		32: "bc_forwarding", 33: "arp_evict_nocarrier",
	}
}

// ipv6Names are variables by their number (DEVCONF_…, include/uapi/linux/ipv6.h).
func ipv6Names() map[int]string {
	return map[int]string{
		0: "forwarding", 1: "hop_limit", 2: "mtu", 3: "accept_ra", 4: "accept_redirects", 5: "autoconf", 6: "dad_transmits",
		7: "router_solicitations", 10: "use_tempaddr", 15: "max_addresses", 17: "accept_ra_defrtr", 18: "accept_ra_pinfo",
		22: "proxy_ndp", 23: "optimistic_dad", 24: "accept_source_route", 25: "mc_forwarding", 26: "disable_ipv6",
		27: "accept_dad", 28: "force_tllao", 29: "ndisc_notify",
	}
}

// address puts an address into words.
func (n names) address(m []byte) (thing, string) {
	rest := from(m, unix.SizeofIfAddrmsg)
	if rest == nil {
		return thing{}, ""
	}
	local := attribute(rest, unix.IFA_LOCAL)
	other := attribute(rest, unix.IFA_ADDRESS)
	if local == nil {
		local, other = other, nil
	}
	link := n.of(int(binary.NativeEndian.Uint32(m[4:])))
	what := fmt.Sprintf("address %s/%d of %s", ip(local), m[1], link)
	value := fmt.Sprintf("scope %d", m[3])
	if other != nil && string(other) != string(local) {
		value += ", peer " + ip(other)
	}
	return thing{"link " + link, what}, value
}

func ip(b []byte) string {
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return fmt.Sprintf("%x", b)
	}
	return a.String()
}
