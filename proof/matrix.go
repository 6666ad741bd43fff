package proof

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/packet"
)

// A kind is what a try of a matrix is.
type kind int

const (
	echo kind = iota // a request of ICMP
	datagram
	opening // TCP with SYN alone
	bare    // TCP with ACK alone, of no connection
	kinds
)

// name is what records call it, text what people read.
func (k kind) name() string { return [kinds]string{"icmp", "udp", "tcp-syn", "tcp-ack"}[k] }

func (k kind) text() string { return [kinds]string{"ICMP echo", "UDP", "TCP SYN", "TCP ACK"}[k] }

// An expectation is what is claimed of a try.
type expectation int

const (
	unclaimed expectation = iota // nothing is claimed
	barred                       // nothing arrives
	either                       // it may arrive at its container, and nowhere else
	due                          // it arrives at its container, and nowhere else
)

// A probe is a try of a matrix: one packet.
type probe struct {
	kind        kind
	from, to    int // as in [matrix.ways]
	source      netip.AddrPort
	target      netip.AddrPort
	expect      expectation
	ipv6        bool
	acrossHosts bool // what arrives at hosts counts as well
}

const (
	// strange is a port that hosts listen at (IANA: ssh).
	strange = 22
	// idle is how far behind its first port a source has one that no flow of a proof has.
	idle = 3
	// highest is the highest port.
	highest = 1<<16 - 1
	// addresses is how many addresses of a host are tried where time is short, others each time.
	addresses = 6
)

// A matrix is who reaches whom in a lab as it is tried. Containers have the numbers from 0, then hosts with the routers
// between them, then groups.
type matrix struct {
	Lab
	containers []*member
	hosts      []*member
	sinks      []Container // by pair
	turn       int         // rotates what is sampled
	complete   bool
	sizes      map[bool][]int // see size
	// omit, if not nil, says what of a try cannot be made and, in brackets, why; "" if it can. That depends on where
	// it goes, and not on who sends it. Omitted has what was left out, without repetition.
	omit    func(p probe) string
	omitted []string
}

// A member is a container, a host or a router in a matrix.
type member struct {
	Container
	host int // that of routers, the underlay, is behind the last one
	// addresses are all of its own of a host or router; those of a container are those at which groups of its link are
	// reached.
	addresses []netip.Addr
	pair      int // of a container
	sink      bool
	knew      []link.Neighbour // before the proof; see remember
	remembers bool
}

// groups are those that containers send to.
func groups() []string { return []string{"multicast", "broadcast"} }

func newMatrix(l Lab, turn int, complete bool) *matrix {
	m := &matrix{Lab: l, turn: turn, complete: complete, sizes: map[bool][]int{}}
	ends := map[string]*member{}
	for h, of := range l.Hosts {
		m.hosts = append(m.hosts, &member{Container: Container{Name: of.Name}, host: h, pair: -1})
		for _, c := range of.Containers {
			one := &member{Container: c, host: h, pair: -1}
			ends[c.Name] = one
			m.containers = append(m.containers, one)
		}
	}
	for _, r := range l.Routers {
		named := Container{Name: r.Name, Namespace: r.Namespace}
		m.hosts = append(m.hosts, &member{Container: named, host: len(l.Hosts), pair: -1})
	}
	for i, p := range l.Pairs {
		ends[p.Source].pair = i
		ends[p.Sink].pair, ends[p.Sink].sink = i, true
		m.sinks = append(m.sinks, ends[p.Sink].Container)
	}
	return m
}

// names are those of all that packets are sent to.
func (m *matrix) names() (list []string) {
	for _, c := range slices.Concat(m.containers, m.hosts) {
		list = append(list, c.Name)
	}
	return append(list, groups()...)
}

// A way is who sends and where to, by their numbers.
type way struct{ from, to int }

// step is how far the other pair is that is tried first.
func (m *matrix) step() int {
	if len(m.Pairs) < 2 {
		return 0
	}
	return 1 + m.turn%(len(m.Pairs)-1)
}

// ways are all, in the order in which they are tried: the pairs; then each pair and another one, which is not the same
// in each turn; then hosts and groups from one pair; then the rest in an order of this turn. must is how many are tried
// however long that takes.
func (m *matrix) ways(seed uint64) (list []way, must int) {
	number := map[string]int{}
	for i, c := range m.containers {
		number[c.Name] = i
	}
	seen := map[way]bool{}
	add := func(from, to int) {
		if w := (way{from, to}); from != to && !seen[w] {
			seen[w] = true
			list = append(list, w)
		}
	}
	for _, p := range m.Pairs {
		add(number[p.Source], number[p.Sink])
		add(number[p.Sink], number[p.Source])
	}
	must = len(list)
	for i, p := range m.Pairs {
		other := m.Pairs[(i+m.step())%len(m.Pairs)]
		for _, from := range []string{p.Source, p.Sink} {
			for _, to := range []string{other.Source, other.Sink} {
				add(number[from], number[to])
				add(number[to], number[from])
			}
		}
	}
	beyond := len(m.names())
	if len(m.Pairs) > 0 {
		p := m.Pairs[m.turn%len(m.Pairs)]
		for to := len(m.containers); to < beyond; to++ {
			add(number[p.Source], to)
			add(number[p.Sink], to)
		}
	}
	first := len(list)
	for from := range m.containers {
		for to := range beyond {
			add(from, to)
		}
	}
	rest := list[first:]
	rand.New(rand.NewPCG(seed, uint64(m.turn))).Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return list, must
}

// probes are the tries of a way in a family. all is how many there are, more than those where time is short.
func (m *matrix) probes(w way, v6 bool) (list []probe, all int) {
	list, all = m.thinkable(w, v6)
	if m.omit == nil {
		return list, all
	}
	there := len(list)
	list = slices.DeleteFunc(list, m.leave)
	return list, all - (there - len(list))
}

// leave says whether a try is left out, and notes why.
func (m *matrix) leave(p probe) bool {
	why := m.omit(p)
	if why != "" && !slices.Contains(m.omitted, why) {
		m.omitted = append(m.omitted, why)
	}
	return why != ""
}

// thinkable are the tries of a way, whether or not they can be made.
func (m *matrix) thinkable(w way, v6 bool) (list []probe, all int) {
	from := m.containers[w.from]
	if !from.Own(v6).IsValid() {
		return nil, 0
	}
	switch {
	case w.to < len(m.containers):
		list = m.toContainer(w, v6)
		return list, len(list)
	case w.to < len(m.containers)+len(m.hosts):
		return m.toHost(w, v6)
	}
	list = m.toGroup(w, v6)
	return list, len(list)
}

// size is how many tries a way has in a family. To a container or host it is the same from everywhere.
func (m *matrix) size(w way, v6 bool) int {
	if !m.containers[w.from].Own(v6).IsValid() {
		return 0
	}
	if w.to >= len(m.containers)+len(m.hosts) {
		_, all := m.probes(w, v6)
		return all
	}
	known := m.sizes[v6]
	if known == nil {
		known = slices.Repeat([]int{-1}, len(m.containers)+len(m.hosts))
		m.sizes[v6] = known
	}
	if known[w.to] < 0 {
		_, known[w.to] = m.probes(w, v6)
	}
	return known[w.to]
}

// listed says whether pairs may talk in a family.
func (m *matrix) listed(v6 bool) bool {
	return slices.Contains(m.Families, map[bool]string{false: "ipv4", true: "ipv6"}[v6])
}

// toContainer are the tries from one container to another: ICMP, and UDP and TCP for a port that is listed, for ports
// that are not, and for one that another pair has.
func (m *matrix) toContainer(w way, v6 bool) (list []probe) {
	from, to := m.containers[w.from], m.containers[w.to]
	listed := to.First
	if !to.sink && m.Filtered && m.Stateful {
		listed += idle // no answer is due there
	}
	ports := []uint16{listed, 0, highest}
	if to.sink && m.Filtered {
		ports = append(ports, to.Last)
	}
	if n := len(m.Pairs); n > 1 && to.pair >= 0 {
		other := m.sinks[(to.pair+m.step())%n]
		if other.First < to.First || other.First > to.Last {
			ports = append(ports, other.First)
		}
	}
	for _, target := range to.Targets(v6) {
		if !target.IsValid() {
			continue
		}
		for k := range kinds {
			for i, port := range ports {
				if k == echo && i > 0 {
					break
				}
				list = append(list, probe{
					kind: k, from: w.from, to: w.to, ipv6: v6, source: netip.AddrPortFrom(from.Own(v6), from.First),
					target: netip.AddrPortFrom(target, port),
					expect: m.expect(from, to, k, i == 0 && k != echo, target == to.Public(v6), v6),
				})
			}
		}
	}
	return list
}

// expect is what is claimed of a packet from one container to another.
func (m *matrix) expect(from, to *member, k kind, listed, public, v6 bool) expectation {
	pair := from.pair >= 0 && from.pair == to.pair && m.listed(v6)
	switch {
	case pair && listed && to.sink && public && k != bare:
		return due
	case !m.Filtered:
		return unclaimed
	case pair && to.sink && k == echo:
		return either // a source may ask its sink; who translates has no port for it
	case pair && listed && to.sink:
		return either // connection tracking may take it for a connection that is older than itself
	case pair && listed && !m.Stateful && k != opening:
		return either // it looks like an answer
	}
	return barred
}

// closes says whether a try is one of the last: what must arrive, and behind that the same at the own address of a sink
// that is reached at another one. If the latter came first, connection tracking would give the former another source
// port, because the answers of both look alike (nf_nat_used_tuple, net/netfilter/nf_nat_core.c). Answers to proofs
// would then not come back.
func (m *matrix) closes(p probe) bool {
	if p.to >= len(m.containers) || p.kind == echo {
		return false
	}
	from, to := m.containers[p.from], m.containers[p.to]
	return to.sink && from.pair == to.pair && p.target.Port() == to.First
}

// toHost are the tries from a container to the addresses of a host or router.
func (m *matrix) toHost(w way, v6 bool) (list []probe, all int) {
	from, host := m.containers[w.from], m.hosts[w.to-len(m.containers)]
	var of []netip.Addr
	for _, a := range host.addresses {
		if a.Is6() == v6 {
			of = append(of, a)
		}
	}
	all = len(of) * int(kinds)
	if !m.complete && len(of) > addresses {
		at := m.turn * addresses % len(of)
		of = slices.Concat(of[at:], of[:at])[:addresses]
	}
	expect := unclaimed
	if m.Filtered && !m.Inside {
		expect = barred
	}
	for _, a := range of {
		for k := range kinds {
			list = append(list, probe{
				kind: k, from: w.from, to: w.to, ipv6: v6, source: netip.AddrPortFrom(from.Own(v6), from.First),
				target: netip.AddrPortFrom(a, strange), expect: expect, acrossHosts: true,
			})
		}
	}
	return list, all
}

// toGroup are the tries from a container to all at once.
func (m *matrix) toGroup(w way, v6 bool) (list []probe) {
	from := m.containers[w.from]
	port := uint16(strange)
	if from.pair >= 0 {
		port = m.sinks[from.pair].First
	}
	var of []netip.Addr
	switch multicast := groups()[w.to-len(m.containers)-len(m.hosts)] == groups()[0]; {
	case multicast && v6:
		of = []netip.Addr{netip.AddrFrom16([16]byte{0xff, 2, 15: 1})} // all nodes: RFC 4291, section 2.7.1
	case multicast:
		of = []netip.Addr{netip.AddrFrom4([4]byte{224, 0, 0, 1})} // all systems: RFC 1112, section 4
	case !v6: // RFC 919
		of = append([]netip.Addr{netip.AddrFrom4([4]byte{255, 255, 255, 255})}, from.addresses...)
	}
	expect := unclaimed
	if m.Filtered {
		expect = barred
	}
	for _, a := range of {
		for _, k := range []kind{echo, datagram} {
			list = append(list, probe{
				kind: k, from: w.from, to: w.to, ipv6: v6, source: netip.AddrPortFrom(from.Own(v6), from.First),
				target: netip.AddrPortFrom(a, port), expect: expect, acrossHosts: true,
			})
		}
	}
	return list
}

// packet is a probe as it is sent. The key is its payload.
func (p probe) packet(key []byte) []byte {
	from, to := p.source.Addr(), p.target.Addr()
	switch p.kind {
	case datagram:
		return packet.IP(from, to, packet.UDP, packet.Hops, packet.Datagram(p.source, p.target, string(key)))
	case opening:
		return packet.IP(from, to, packet.TCP, packet.Hops, packet.Segment(p.source, p.target, packet.SYN, string(key)))
	case bare:
		return packet.IP(from, to, packet.TCP, packet.Hops, packet.Segment(p.source, p.target, packet.ACK, string(key)))
	}
	return packet.IP(from, to, packet.ICMPOf(to), packet.Hops, p.request(key))
}

// request is an echo request without the header of IP.
func (p probe) request(key []byte) []byte {
	return echoRequestOf(p.source.Addr(), p.target.Addr(), key)
}

func echoRequestOf(from, to netip.Addr, key []byte) []byte {
	request := byte(echoRequest)
	if to.Is6() {
		request = echoRequest6
	}
	return packet.Message(from, to, request, 0, 1, key)
}

// claim is the name of the claim that the probe is a try of, if a filter claims anything.
func (p probe) claim() string {
	if p.expect == due {
		return measure.MatrixListed
	}
	return measure.MatrixLeaks
}

// what is a probe in words without its addresses. No socket of UDP sends to port 0.
func (p probe) what() string {
	if p.kind == datagram && p.target.Port() == 0 {
		return p.kind.text() + " to port 0"
	}
	return p.kind.text()
}

// Types of ICMP (RFC 792; RFC 4443, section 4.1).
const (
	echoRequest  = 8
	echoRequest6 = 128
)

// text is a probe in words.
func (m *matrix) text(p probe) string {
	to := p.target.String()
	if p.kind == echo {
		to = p.target.Addr().String()
	}
	return fmt.Sprintf("%s from %s for %s (%s)", p.kind.text(), m.containers[p.from].Name, m.names()[p.to], to)
}

// shares says whether a probe is for another container as well, which has the same address to others, and may go there:
// at a published port, or as an answer to what a proof has begun. Published ports may be at further addresses, as node
// ports of a cluster are at those of all nodes.
func (m *matrix) shares(p probe, at *member) bool {
	from, port := m.containers[p.from], p.target.Port()
	if from.pair < 0 || from.pair != at.pair || !m.listed(p.ipv6) {
		return false
	}
	translated := at.sink && at.Own(p.ipv6) != at.Public(p.ipv6)
	if p.target.Addr() != at.Public(p.ipv6) && !translated {
		return false
	}
	switch {
	case at.sink && p.kind == echo:
		return true
	case at.sink:
		return port >= at.First && port < at.Last
	case p.kind == echo || p.kind == opening:
		return false
	case m.Stateful:
		return port == at.First
	}
	return port >= at.First && port <= at.Last
}

// judge says what came of a probe that arrived at these members, the sender not among them, and names what arrived and
// must not.
func (m *matrix) judge(p probe, arrived []int) (reach measure.Reach, leaks []string) {
	right, elsewhere := false, false
	for _, at := range arrived {
		switch host := at >= len(m.containers); {
		case host && !p.acrossHosts:
			continue // an address that the host has as well is tried by itself
		case host && m.Inside:
			elsewhere = true // no filter stands there, and nothing is claimed of it
		case !host && at != p.to && m.shares(p, m.containers[at]):
			continue // it is for that one as well
		case at == p.to && (p.expect == due || p.expect == either):
			right = true
		case m.Filtered:
			leaks = append(leaks, fmt.Sprintf("%s arrives at %s", m.text(p), m.names()[at]))
		default:
			elsewhere = true
		}
	}
	switch {
	case len(leaks) > 0:
		return measure.ReachLeak, leaks
	case p.expect == due && !right:
		return measure.ReachMissing, nil
	case elsewhere:
		return measure.ReachOpen, nil
	case right:
		return measure.ReachAllowed, nil
	case p.expect == unclaimed:
		return measure.ReachClosed, nil
	}
	return measure.ReachRefused, nil
}
