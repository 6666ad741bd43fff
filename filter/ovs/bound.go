package ovs

import (
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// Priorities in the tables that bind addresses to ports (parameter antispoof): table 0 compares a packet's source with
// its port, tableFrom what some protocols say besides.
const (
	boundNever   = 400 // dropped whatever the port
	boundInvalid = 300
	boundPort    = 200
	boundOther   = 100
)

// Numbers of messages (IANA), and the ports of DHCP servers (RFC 2131, section 4.1; RFC 8415, section 7.2).
const (
	redirect4    = 5
	router4      = 9
	serverDHCP   = 67
	serverDHCPv6 = 547
)

// placed puts a flow of the list where the list stands.
func (a Allow) placed(f ovs.Flow) ovs.Flow {
	if a.Bound != nil && f.Table == 0 {
		f.Table = tableList
	}
	return f
}

// bound are the flows that bind addresses to ports, none if that was not asked for. The switch reads the options of
// neighbour discovery; a message with several or malformed ones has no target for it (parse_icmpv6, lib/flow.c).
func (a Allow) bound() ([]ovs.Flow, error) {
	if a.Bound == nil {
		return nil, nil
	}
	var list []ovs.Flow
	pass := func(table uint8, priority uint16, m ovs.Match, to uint8) {
		list = append(list, ovs.Flow{Cookie: ovs.CookieBase, Table: table, Priority: priority, Match: m, Goto: to})
	}
	drop := func(table uint8, priority uint16, m ovs.Match) {
		list = append(list, ovs.Flow{Cookie: ovs.CookieRefused, Table: table, Priority: priority, Match: m})
	}
	list = append(list, ovs.Exact(ovs.CookieRefused, 0))
	pass(0, boundPort, ovs.Match{InPort: ovs.Local}, tableList)
	drop(0, priorityRest, ovs.Match{})
	drop(tableFrom, boundNever, ovs.Match{Ether: ovs.IPv4, Protocol: ovs.UDP, FromPort: ovs.Exactly(serverDHCP)})
	drop(tableFrom, boundNever, ovs.Match{Ether: ovs.IPv6, Protocol: ovs.UDP, FromPort: ovs.Exactly(serverDHCPv6)})
	drop(tableFrom, boundNever, ovs.Match{Ether: ovs.IPv4, Protocol: ovs.ICMP, ICMPType: redirect4})
	drop(tableFrom, boundNever, ovs.Match{Ether: ovs.IPv4, Protocol: ovs.ICMP, ICMPType: router4})
	message := func(kind int) ovs.Match {
		return ovs.Match{Ether: ovs.IPv6, Protocol: ovs.ICMPv6, ICMPType: kind}
	}
	for kind := ndFirst; kind <= ndLast; kind++ {
		invalid := message(kind)
		invalid.Target = netip.IPv6Unspecified()
		drop(tableFrom, boundInvalid, invalid)
	}
	// errors and echoes (RFC 4443), members of groups (RFC 2710, RFC 3810)
	for _, kind := range []int{1, 2, 3, 4, echoRequest6, echoReply6, 131, 132, 143} {
		pass(tableFrom, boundPort, message(kind), tableList)
	}
	pass(tableFrom, boundPort, ovs.Match{Ether: ovs.IPv6, Protocol: ovs.ICMPv6, Fragment: ovs.Later}, tableList)
	asks := message(ndFirst)
	asks.NoOption = true
	pass(tableFrom, boundPort, asks, tableList)
	drop(tableFrom, boundOther, ovs.Match{Ether: ovs.IPv6, Protocol: ovs.ICMPv6})
	pass(tableFrom, priorityRest, ovs.Match{}, tableList)
	for i, b := range a.Bound {
		mac, err := b.Hardware()
		if err != nil {
			return nil, fmt.Errorf("bind addresses to port %d: %w", i+1, err)
		}
		a.port(uint32(i+1), mac, b, pass)
	}
	return list, nil
}

// port calls pass with the flows of a port.
func (Allow) port(number uint32, mac [6]byte, b filter.Binding,
	pass func(table uint8, priority uint16, m ovs.Match, to uint8),
) {
	from := ovs.Match{InPort: number, EtherFrom: mac}
	arp := from
	arp.Ether, arp.From, arp.Sender = ovs.ARP, whole(b.IPv4), mac
	pass(0, boundPort, arp, tableList)
	own := []netip.Addr{b.IPv6, filter.LinkLocal(mac)}
	for _, a := range append([]netip.Addr{b.IPv4}, own...) {
		packet := from
		packet.Ether, packet.From = ether(a), whole(a)
		pass(0, boundPort, packet, tableFrom)
	}
	asks := ovs.Match{InPort: number, Ether: ovs.IPv6, Protocol: ovs.ICMPv6, ICMPType: ndFirst, Option: mac}
	pass(tableFrom, boundPort, asks, tableList)
	for _, a := range own {
		duplicates := from
		duplicates.Ether, duplicates.Protocol, duplicates.ICMPType = ovs.IPv6, ovs.ICMPv6, ndFirst
		duplicates.From, duplicates.Target = whole(netip.IPv6Unspecified()), a
		pass(0, boundPort, duplicates, tableList)
		answers := ovs.Match{InPort: number, Ether: ovs.IPv6, Protocol: ovs.ICMPv6, ICMPType: ndLast, Target: a, Option: mac}
		pass(tableFrom, boundPort, answers, tableList)
		answers.Option, answers.NoOption = [6]byte{}, true
		pass(tableFrom, boundPort, answers, tableList)
	}
}
