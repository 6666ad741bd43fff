package ovs

import (
	"fmt"
	"iter"
	"net/netip"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// Priorities of flows. Those of decoy rules are above or below those of pairs.
const (
	priorityBase   = 900 // what the network needs, and what is known
	aboveIP        = 500 // more than otherwise, where it is not to be tracked
	priorityIP     = 400 // what has to be tracked first
	priorityBefore = 300
	priorityAdded  = 250
	priorityPair   = 200
	priorityAfter  = 100
	priorityRest   = 1
)

// Tables besides the first. A flow leads to one behind its own only (OpenFlow 1.3.5, section 7.2.4).
const (
	tableFrom      = 1 // where what some protocols say of addresses is compared with a port, see [Allow.bound]
	tableList      = 2 // where the list stands if addresses are bound to ports, instead of in table 0
	tableTracked   = 3 // where packets are decided whose connections are known
	tableSending   = 4 // where what a source sends to a port of its sink is asked for the source's port
	tableAnswering = 5 // the same for answers
	tableToward    = 6 // where packets that may pass are compared with a port by their destination, see [Allow.toward]
)

// Types of messages.
const (
	echoRequest4, echoReply4 = 8, -1 // RFC 792; the reply is of type 0
	echoRequest6, echoReply6 = 128, 129
	ndFirst, ndLast          = 135, 136 // who looks for neighbours and who answers: RFC 4861, sections 4.3 and 4.4
	ndHops                   = 255      // of what comes from the same link (section 7.1)
)

// base are the flows that every list has.
func (a Allow) base() ([]ovs.Flow, error) {
	var list []ovs.Flow
	pass := func(m ovs.Match) {
		list = append(list, ovs.Flow{Cookie: ovs.CookieBase, Priority: priorityBase, Match: m, Goto: ovs.TableForward})
	}
	pass(ovs.Match{Ether: ovs.ARP})
	for kind := ndFirst; kind <= ndLast; kind++ {
		pass(ovs.Match{Ether: ovs.IPv6, Protocol: ovs.ICMPv6, ICMPType: kind, TTL: ndHops})
	}
	for _, text := range a.Own {
		own, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("address %q of the host: %w", text, err)
		}
		// No list has packets for the host. Packets from it pass and, with connection tracking, their answers.
		list = append(list, ovs.Flow{
			Cookie: ovs.CookieBase, Priority: priorityBase - 1, Match: ovs.Match{
				Ether: ether(own), From: whole(own), InPort: ovs.Local,
			}, Commit: a.List.Stateful, Goto: ovs.TableForward,
		})
	}
	if a.List.Stateful {
		for _, e := range []uint16{ovs.IPv4, ovs.IPv6} {
			list = append(list,
				ovs.Flow{Cookie: ovs.CookieBase, Priority: priorityIP, Match: ovs.Match{Ether: e}, Track: tableTracked},
				ovs.Flow{
					Cookie: ovs.CookieAllowed, Table: tableTracked, Priority: priorityBase,
					Match: ovs.Match{Ether: e, Tracking: ovs.Flags(ovs.Tracked|ovs.Established, ovs.New|ovs.Invalid)},
					Goto:  ovs.TableForward,
				},
				ovs.Flow{ // errors of connections that are known
					Cookie: ovs.CookieAllowed, Table: tableTracked, Priority: priorityBase - 1,
					Match: ovs.Match{Ether: e, Tracking: ovs.Flags(ovs.Tracked|ovs.Related, ovs.Invalid)}, Goto: ovs.TableForward,
				},
			)
		}
		list = append(list, ovs.Flow{Cookie: ovs.CookieRefused, Table: tableTracked, Priority: priorityRest})
	}
	for _, table := range []uint8{0, tableSending, tableAnswering} {
		list = append(list, ovs.Flow{Cookie: ovs.CookieRefused, Table: table, Priority: priorityRest})
	}
	return list, nil
}

// flows yields all flows of the list for a datapath.
func (a Allow) flows(of string) (iter.Seq[ovs.Flow], error) {
	base, err := a.base()
	if err != nil {
		return nil, err
	}
	bound, err := a.bound()
	if err != nil {
		return nil, err
	}
	return func(yield func(ovs.Flow) bool) {
		for _, f := range bound {
			if !yield(f) {
				return
			}
		}
		for _, f := range base {
			if !yield(a.placed(f)) {
				return
			}
		}
		for _, v6 := range []bool{false, true} {
			for f := range a.family(v6, of) {
				if !yield(a.placed(f)) {
					return
				}
			}
		}
	}, nil
}

// family yields the flows of the pairs and decoy rules of a family.
func (a Allow) family(v6 bool, of string) iter.Seq[ovs.Flow] {
	return func(yield func(ovs.Flow) bool) {
		if !a.List.Lists(v6) {
			return
		}
		pairs := a.List
		pairs.Decoys = 0
		for _, w := range a.ways(ovs.CookieAllowed, priorityPair, of) {
			for r := range pairs.Rules(v6) {
				for _, f := range w.ports(r) {
					if !yield(f) {
						return
					}
				}
			}
			seen := map[filter.Rule]bool{}
			for r := range pairs.Rules(v6) {
				r.First, r.Last = 0, 0
				if seen[r] {
					continue
				}
				seen[r] = true
				for _, f := range w.senders(r) {
					if !yield(f) {
						return
					}
				}
			}
			for r := range filter.Pairs(pairs.Rules(v6)) {
				for _, f := range w.addresses(r) {
					if !yield(f) {
						return
					}
				}
			}
		}
		priority := uint16(priorityBefore)
		if a.List.After {
			priority = priorityAfter
		}
		w := way{cookie: ovs.CookieAllowed, priority: priority, tracked: a.List.Stateful}
		for i := range a.List.Decoys {
			r := filter.Decoy(i, v6)
			m := ovs.Match{
				Ether: ether(r.Sink), Protocol: [...]uint8{ovs.UDP, ovs.TCP}[i%2], From: whole(r.Source),
				To: whole(r.Sink), ToPort: ovs.Exactly(r.First),
			}
			if !yield(w.pass(m)) {
				return
			}
		}
	}
}

// way is how packets are let through.
type way struct {
	cookie   uint64
	priority uint16
	// tracked lets the first packet of a connection through and commits it; else answers have flows, too.
	tracked bool
	// fragment is Later or First, 0 for all packets.
	fragment uint8
}

// ways are how the flows of a rule let packets through: by their connection or not, and in the userspace datapath
// without it where they are fragments.
func (a Allow) ways(cookie uint64, priority uint16, of string) []way {
	switch {
	case !a.List.Stateful:
		return []way{{cookie: cookie, priority: priority}}
	case of == ovs.Kernel:
		return []way{{cookie: cookie, priority: priority, tracked: true}}
	}
	return []way{
		{cookie: cookie, priority: priority, tracked: true},
		{cookie: cookie, priority: priority + aboveIP, fragment: ovs.First},
	}
}

// pass is a flow that lets packets through.
func (w way) pass(m ovs.Match) ovs.Flow {
	if m.Fragment == 0 {
		m.Fragment = w.fragment
	}
	f := ovs.Flow{Cookie: w.cookie, Priority: w.priority, Match: m, Goto: ovs.TableForward}
	if w.tracked {
		f.Table, f.Commit = tableTracked, true
		f.Match.Tracking = ovs.Flags(ovs.Tracked|ovs.New, 0)
	}
	return f
}

// on is a flow that leads to another table, where it is decided whether packets pass, and counted.
func (w way) on(m ovs.Match, table uint8) ovs.Flow {
	f := w.pass(m)
	f.Cookie, f.Commit, f.Goto = ovs.CookieBase, false, table
	return f
}

// at is a flow of another table that lets packets through.
func (w way) at(table uint8, m ovs.Match) ovs.Flow {
	f := w.pass(m)
	f.Table = table
	return f
}

// senders are the flows of a rule that match its source's ports. In one flow with the sink's they would be as many as
// the product of the masks of both.
func (w way) senders(r filter.Rule) []ovs.Flow {
	var list []ovs.Flow
	for _, ports := range ovs.Between(r.SourceFirst, r.SourceLast) {
		for _, protocol := range []uint8{ovs.UDP, ovs.TCP} {
			list = append(list, w.at(tableSending, ovs.Match{
				Ether: ether(r.Sink), Protocol: protocol, From: whole(r.Source), To: whole(r.Sink), FromPort: ports,
			}))
			if !w.tracked {
				list = append(list, w.at(tableAnswering, ovs.Match{
					Ether: ether(r.Sink), Protocol: protocol, From: whole(r.Sink), To: whole(r.Source), ToPort: ports,
				}))
			}
		}
	}
	return list
}

// ports are the flows of a rule that match its sink's ports.
func (w way) ports(r filter.Rule) []ovs.Flow {
	var list []ovs.Flow
	for _, ports := range ovs.Between(r.First, r.Last) {
		for _, protocol := range []uint8{ovs.UDP, ovs.TCP} {
			list = append(list, w.on(ovs.Match{
				Ether: ether(r.Sink), Protocol: protocol, From: whole(r.Source), To: whole(r.Sink), ToPort: ports,
			}, tableSending))
			if w.tracked {
				continue
			}
			back := ovs.Match{
				Ether: ether(r.Sink), Protocol: protocol, From: whole(r.Sink), To: whole(r.Source),
				FromPort: ports,
			}
			if protocol == ovs.UDP {
				list = append(list, w.on(back, tableAnswering))
				continue
			}
			for _, flags := range []ovs.Masked{ovs.Flags(0, ovs.SYN), ovs.Flags(ovs.SYN|ovs.ACK, 0)} {
				back.TCPFlags = flags
				list = append(list, w.on(back, tableAnswering))
			}
		}
	}
	return list
}

// addresses are the flows of a pair that match its addresses alone: echoes, and fragments that are not the first of
// their packet.
func (w way) addresses(r filter.Rule) []ovs.Flow {
	protocol, request, reply := uint8(ovs.ICMP), echoRequest4, echoReply4
	if r.Sink.Is6() {
		protocol, request, reply = ovs.ICMPv6, echoRequest6, echoReply6
	}
	forth := ovs.Match{Ether: ether(r.Sink), From: whole(r.Source), To: whole(r.Sink)}
	back := ovs.Match{Ether: ether(r.Sink), From: whole(r.Sink), To: whole(r.Source)}
	asks, answers := forth, back
	asks.Protocol, asks.ICMPType = protocol, request
	answers.Protocol, answers.ICMPType = protocol, reply
	if w.tracked {
		return []ovs.Flow{w.pass(asks)}
	}
	forth.Fragment, back.Fragment = ovs.Later, ovs.Later
	return []ovs.Flow{w.pass(asks), w.pass(answers), w.pass(forth), w.pass(back)}
}

func ether(a netip.Addr) uint16 {
	if a.Is6() {
		return ovs.IPv6
	}
	return ovs.IPv4
}

func whole(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
