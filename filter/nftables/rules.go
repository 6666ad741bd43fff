package nftables

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
)

// Names of hooks and chains.
const (
	hookForward = "forward"
	hookInput   = "input"
	hookOutput  = "output"
	hookIngress = "ingress"

	chainAccepted = "accepted" // where everything goes that the list lets pass: it counts
	chainDecide   = "decide"   // where all hooks lead to if there are several
	chainHost     = "host"     // where packets for the host itself come
)

// Numbers of protocols (IANA), of families (NFPROTO_…, include/uapi/linux/netfilter.h), of types of frames
// (include/uapi/linux/if_ether.h), and the index of every namespace's first link (LOOPBACK_IFINDEX).
const (
	protocolTCP    = 6
	protocolUDP    = 17
	protocolICMP   = 1
	protocolICMPv6 = 58
	loopback       = 1
	fragmentHeader = 44
)

// version is what differs between IPv4 and IPv6.
type version struct {
	v6 bool
	// where addresses are, and their length: RFC 791 section 3.1, RFC 8200 section 3
	source, sink, length   uint32
	secondWord, portWord   ruleset.Register // of a key, behind the first address
	field                  ruleset.Field
	icmp, request, reply   byte // RFC 792, RFC 4443
	family, ether0, ether1 byte
	mask0, mask1           byte // of the offset in a fragment
}

func versionOf(v6 bool) version {
	if v6 {
		return version{
			v6: true, source: 8, sink: 24, length: 16, secondWord: ruleset.Word(4), portWord: ruleset.Word(8),
			field: ruleset.IPv6,
			icmp:  protocolICMPv6, request: 128, reply: 129, family: 10, ether0: 0x86, ether1: 0xdd, mask0: 0xff, mask1: 0xf8,
		}
	}
	return version{
		source: 12, sink: 16, length: 4, secondWord: ruleset.Word(1), portWord: ruleset.Word(2), field: ruleset.IPv4,
		icmp: protocolICMP, request: 8, reply: 0, family: 2, ether0: 0x08, ether1: 0x00, mask0: 0x1f, mask1: 0xff,
	}
}

// name is that of the chain with the version's rules.
func (v version) name() string {
	if v.v6 {
		return "ipv6"
	}
	return "ipv4"
}

// set is the name of its set or map.
func (v version) set() string { return "allowed-" + v.name() }

// sending is the name of the map from a source and its sink to the chain with the source's ports.
func (v version) sending() string { return "sending-" + v.name() }

// pairs is the name of the set of the addresses between which something without ports passes. A key of the other set
// with port 0 in their place would stand for that port, too.
func (v version) pairs() string { return "pairs-" + v.name() }

// Offsets of ports, RFC 768 and RFC 9293 section 3.1.
const (
	sourcePort = 0
	sinkPort   = 2
	flagsTCP   = 13
	synAck     = 0x12
	syn        = 0x02
)

// between begins a rule for packets from one address to another. The source comes first: decoy rules are left after it.
// The kernel reads and compares the four bytes of IPv4 without an indirect call (nft_do_chain,
// net/netfilter/nf_tables_core.c); the sixteen of IPv6 it reads by one.
func (v version) between(b ruleset.Rule, from, to netip.Addr) ruleset.Rule {
	w := ruleset.Word(0)
	b = b.Load(w, ruleset.NetworkHeader, v.source, v.length)
	b = v.equal(b, w, from).Load(w, ruleset.NetworkHeader, v.sink, v.length)
	return v.equal(b, w, to)
}

func (v version) equal(b ruleset.Rule, w ruleset.Register, a netip.Addr) ruleset.Rule {
	if v.v6 {
		bytes := a.As16()
		return b.Equal(w, bytes[:]...)
	}
	bytes := a.As4()
	return b.Equal(w, bytes[:]...)
}

func is(b ruleset.Rule, protocol byte) ruleset.Rule {
	w := ruleset.Word(0)
	return b.LoadMeta(w, ruleset.Protocol).Equal(w, protocol)
}

// ports asks for a protocol and the sink's port at an offset, and then for the source's at the other.
func ports(b ruleset.Rule, protocol byte, offset uint32, r filter.Rule) ruleset.Rule {
	w := ruleset.Word(0)
	b = is(b, protocol).Load(w, ruleset.TransportHeader, offset, 2).Between(w, r.First, r.Last)
	if r.FromAnyPort() {
		return b
	}
	return sending(b, offset, r)
}

// sending asks for the source's port, where the sink's is at an offset.
func sending(b ruleset.Rule, offset uint32, r filter.Rule) ruleset.Rule {
	w := ruleset.Word(0)
	return b.Load(w, ruleset.TransportHeader, sourcePort+sinkPort-offset, 2).Between(w, r.SourceFirst, r.SourceLast)
}

// opensNone lets segments through that do not open a connection.
func opensNone(b ruleset.Rule) ruleset.Rule {
	w := ruleset.Word(0)
	return b.Load(w, ruleset.TransportHeader, flagsTCP, 1).Mask(w, synAck).Differ(w, syn)
}

// message asks for a type of ICMP, with code 0.
func (v version) message(kind byte) ruleset.Rule {
	w := ruleset.Word(0)
	return is(nil, v.icmp).Load(w, ruleset.TransportHeader, 0, 2).Equal(w, kind, 0)
}

// fragment asks for one that is not the first: the offset is not 0 (RFC 791 section 3.1, RFC 8200 section 4.5).
func (v version) fragment() ruleset.Rule {
	var b ruleset.Rule
	w := ruleset.Word(0)
	if v.v6 {
		b = b.LoadExtension(w, fragmentHeader, 2, 2)
	} else {
		b = b.Load(w, ruleset.NetworkHeader, 6, 2)
	}
	return b.Mask(w, v.mask0, v.mask1).Differ(w, 0, 0)
}

// forth are the questions to packets from the source to the sink, behind those for addresses. whole asks for what has
// no ports, too.
func (v version) forth(r filter.Rule, stateful, whole bool) []ruleset.Rule {
	list := []ruleset.Rule{ports(nil, protocolUDP, sinkPort, r), ports(nil, protocolTCP, sinkPort, r)}
	whole = whole && !r.Published
	if whole {
		list = append(list, v.message(v.request))
	}
	if whole && !stateful {
		list = append(list, v.fragment())
	}
	return list
}

// back are those to packets from the sink to the source, where connections are not known.
func (v version) back(r filter.Rule, whole bool) []ruleset.Rule {
	list := []ruleset.Rule{ports(nil, protocolUDP, sourcePort, r), opensNone(ports(nil, protocolTCP, sourcePort, r))}
	if whole && !r.Published {
		list = append(list, v.message(v.reply), v.fragment())
	}
	return list
}

// way is one direction of a rule.
type way struct {
	from, to netip.Addr
	rules    []ruleset.Rule
}

// ways are the rules for each direction, without addresses. whole asks for what has no ports, too: once for each pair.
func (v version) ways(r filter.Rule, stateful, whole bool) []way {
	list := []way{{r.Source, r.Sink, v.forth(r, stateful, whole)}}
	if !stateful {
		list = append(list, way{r.Sink, r.Source, v.back(r, whole)})
	}
	for _, w := range list {
		for i := range w.rules {
			w.rules[i] = w.rules[i].Goto(chainAccepted)
		}
	}
	return list
}

// rules are the same with addresses.
func (v version) rules(r filter.Rule, stateful, whole bool) []ruleset.Rule {
	var list []ruleset.Rule
	for _, w := range v.ways(r, stateful, whole) {
		for _, rule := range w.rules {
			list = append(list, append(v.between(nil, w.from, w.to), rule...))
		}
	}
	return list
}

// chain is the name of the one for packets of a way.
func (w way) chain() string { return w.from.String() + "-" + w.to.String() }

// element leads to it.
func (w way) element(v version) ruleset.Element {
	return ruleset.Element{Key: v.key(nil, w.from, w.to), Chain: w.chain()}
}

func (v version) key(b []byte, from, to netip.Addr) []byte {
	if v.v6 {
		source, sink := from.As16(), to.As16()
		return append(append(b, source[:]...), sink[:]...)
	}
	source, sink := from.As4(), to.As4()
	return append(append(b, source[:]...), sink[:]...)
}

// elements are those of a rule in the set of ports: one for each.
func (v version) elements(r filter.Rule) iter.Seq[ruleset.Element] {
	return func(yield func(ruleset.Element) bool) {
		b := v.key(make([]byte, 0, 36), r.Source, r.Sink)
		for port := int(r.First); port <= int(r.Last); port++ {
			if !yield(ruleset.Element{Key: append(b, byte(port>>8), byte(port), 0, 0)}) {
				return
			}
		}
	}
}

// pair is a rule's element in the set of pairs.
func (v version) pair(r filter.Rule) ruleset.Element {
	return ruleset.Element{Key: v.key(nil, r.Source, r.Sink)}
}

// sender is a rule's element in the map to chains with the source's ports.
func (v version) sender(r filter.Rule) ruleset.Element {
	return ruleset.Element{Key: v.key(nil, r.Source, r.Sink), Chain: senders(r)}
}

// senders is the name of the chain of a pair with the source's ports.
func senders(r filter.Rule) string { return r.Source.String() + "-" + r.Sink.String() }

// senderRules are those of the chain for the source's ports of a rule: packets that the source sends, and answers.
func (v version) senderRules(r filter.Rule, stateful bool) []ruleset.Rule {
	w := ruleset.Word(0)
	list := []ruleset.Rule{sending(v.equal(ruleset.Rule(nil).Load(w, ruleset.NetworkHeader, v.source, v.length), w,
		r.Source), sinkPort, r).Goto(chainAccepted)}
	if !stateful {
		list = append(list, sending(v.equal(ruleset.Rule(nil).Load(w, ruleset.NetworkHeader, v.sink, v.length), w, r.Source),
			sourcePort, r).Goto(chainAccepted))
	}
	return list
}

func one(e ruleset.Element) iter.Seq[ruleset.Element] {
	return func(yield func(ruleset.Element) bool) { yield(e) }
}

// load puts a key's addresses where they are looked up: of the packet's source and destination, or the other way round
// for answers.
func (v version) load(b ruleset.Rule, answer bool) ruleset.Rule {
	from, to := v.source, v.sink
	if answer {
		from, to = to, from
	}
	return b.Load(ruleset.Word(0), ruleset.NetworkHeader, from, v.length).Load(v.secondWord, ruleset.NetworkHeader, to,
		v.length)
}

// lookups are the rules that look into a set.
func (v version) lookups(stateful bool) []ruleset.Rule {
	port := func(b ruleset.Rule, offset uint32) ruleset.Rule {
		return v.load(b, offset == sourcePort).Load(v.portWord, ruleset.TransportHeader, offset, 2).In(v.set(),
			ruleset.Word(0)).Map(v.sending(), ruleset.Word(0))
	}
	none := func(b ruleset.Rule, answer bool) ruleset.Rule {
		return v.load(b, answer).In(v.pairs(), ruleset.Word(0)).Goto(chainAccepted)
	}
	list := []ruleset.Rule{port(is(nil, protocolUDP), sinkPort), port(is(nil, protocolTCP), sinkPort)}
	if stateful {
		return append(list, none(v.message(v.request), false))
	}
	return append(list,
		port(is(nil, protocolUDP), sourcePort), port(opensNone(is(nil, protocolTCP)), sourcePort),
		none(v.message(v.request), false), none(v.message(v.reply), true),
		none(v.fragment(), false), none(v.fragment(), true))
}

// neighbours lets neighbour discovery pass: a packet that still has 255 hops to go was not forwarded (RFC 4861, section
// 7.1). Ahead is set on a host that forwards: there only packets for addresses that nobody forwards to pass (RFC 4291,
// sections 2.5.6 and 2.7).
func neighbours(ahead bool) []ruleset.Rule {
	const solicitation, advertisement = 135, 136
	w, v := ruleset.Word(0), versionOf(true)
	var list []ruleset.Rule
	for _, kind := range []byte{solicitation, advertisement} {
		rule := v.message(kind).Load(w, ruleset.NetworkHeader, 7, 1).Equal(w, 255)
		if !ahead {
			list = append(list, rule.Accept())
			continue
		}
		// groups, and those of a link
		for _, to := range []struct {
			mask, value [2]byte
		}{{[2]byte{0xff, 0}, [2]byte{0xff, 0}}, {[2]byte{0xff, 0xc0}, [2]byte{0xfe, 0x80}}} {
			list = append(list, slices.Clone(rule).Load(w, ruleset.NetworkHeader, v.sink, 2).Mask(w, to.mask[:]...).Equal(w,
				to.value[:]...).Accept())
		}
	}
	return list
}
