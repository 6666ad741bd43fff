package ovs

import (
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// Priorities in the tables that bind addresses to ports (parameter antispoof): table 0 compares a packet's source with
// its port, tableFrom what some protocols say besides, and tableToward the destination.
const (
	boundNever   = 400 // dropped whatever the port
	boundInvalid = 300
	boundPort    = 200
	boundGroup   = 150
	boundOther   = 100
)

// Numbers of messages (IANA), and the ports of DHCP servers (RFC 2131, section 4.1; RFC 8415, section 7.2).
const (
	redirect4    = 5
	router4      = 9
	serverDHCP   = 67
	serverDHCPv6 = 547
)

// placed puts a flow of the list where the list stands, and lets it lead to where destinations are compared.
func (a Allow) placed(f ovs.Flow) ovs.Flow {
	if a.Bound == nil {
		return f
	}
	if f.Table == 0 {
		f.Table = tableList
	}
	if f.Goto == ovs.TableForward {
		f.Goto = tableToward
	}
	return f
}

// hardware returns the MAC address of the bridge's own link.
func (a Allow) hardware() ([6]byte, error) { return filter.Binding{MAC: a.MAC}.Hardware() }

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
	toward, err := a.toward()
	return append(list, toward...), err
}

// toward are the flows of the last table of the filter, to which all packets lead that may pass. A switch that learns
// chooses the port of a frame by its MAC address alone, and all ports if it does not know that. So here packets for one
// container go to its port, if both addresses are the container's, and those for the host's MAC address go to the host,
// which forwards them. Only packets for groups, ARP, and frames without IP are forwarded by the network's own flows. No
// other packet of IP passes.
func (a Allow) toward() ([]ovs.Flow, error) {
	var list []ovs.Flow
	add := func(priority uint16, f ovs.Flow) {
		f.Table, f.Priority = tableToward, priority
		list = append(list, f)
	}
	out := func(port uint32, m ovs.Match) {
		add(boundPort, ovs.Flow{Cookie: ovs.CookieBase, Match: m, Output: port})
	}
	for i, b := range a.Bound {
		mac, err := b.Hardware()
		if err != nil {
			return nil, fmt.Errorf("bind addresses to port %d: %w", i+1, err)
		}
		for _, to := range []netip.Addr{b.IPv4, b.IPv6, filter.LinkLocal(mac)} {
			out(uint32(i+1), ovs.Match{EtherTo: mac, Ether: ether(to), To: whole(to)})
		}
	}
	own, err := a.hardware()
	if err != nil {
		return nil, fmt.Errorf("bridge %q: %w", a.Bridge, err)
	}
	for _, e := range []uint16{ovs.IPv4, ovs.IPv6} {
		out(ovs.Local, ovs.Match{EtherTo: own, Ether: e})
		add(boundOther, ovs.Flow{Cookie: ovs.CookieRefused, Match: ovs.Match{Ether: e}})
	}
	for _, group := range []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{224}), 4),                 // RFC 5771
		netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 32), // RFC 919, section 7
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0xff}), 8),              // RFC 4291, section 2.7
	} {
		add(boundGroup, ovs.Flow{
			Cookie: ovs.CookieBase, Match: ovs.Match{Ether: ether(group.Addr()), To: group}, Goto: ovs.TableForward,
		})
	}
	add(priorityRest, ovs.Flow{Cookie: ovs.CookieBase, Goto: ovs.TableForward})
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
