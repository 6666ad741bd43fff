package attack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/busy"
	"github.com/nettoll/nettoll/proof/packet"
)

// room is how long room in a table of neighbours is waited for.
const room = time.Second

// answers asks for every neighbour: who has an address answers, or the host for it where it is a router without a
// bridge, and nobody else. For a gateway one answers.
func (s *stand) answers(o *Outcome, v6 bool) error {
	type question struct {
		from    *end
		of      netip.Addr
		right   []string // MAC addresses
		gateway bool
		known   bool // for good: nobody has to answer
		before  int
	}
	var list []question
	for _, from := range s.ends {
		for _, gate := range from.gates {
			if gate.Is6() == v6 {
				q := question{from: from, of: gate, right: from.gateway(gate), gateway: true}
				err := within(from.ns, func(*link.Handle) error {
					n, err := link.StaticNeighbour(from.at, gate, false)
					q.known = err == nil && slices.Contains(q.right, n.MAC.String())
					if errors.Is(err, link.ErrNotFound) {
						return nil
					}
					return err
				})
				if err != nil {
					return err
				}
				list = append(list, q)
			}
		}
		for _, to := range s.ends {
			if from == to {
				continue
			}
			right := []string{to.mac.String()}
			for _, gate := range from.gates {
				if macs := from.gateway(gate); gate.Is6() == v6 && slices.Contains(macs, from.outer.String()) {
					right = append(right, macs...) // it answers for everybody
				}
			}
			list = append(list, question{from: from, of: to.Own(v6), right: right})
		}
	}
	excused, crowded := s.watch(), busy.Crowded()
	for i, q := range list {
		list[i].before = len(s.taps.answered(q.from.index, q.of))
		if err := q.from.send(q.from.asks(q.of)); err != nil {
			return err
		}
	}
	if err := s.wait(2 * settle); err != nil { // proxies hold answers back
		return err
	}
	for range busy.Again {
		var lost []question
		of := 0
		for _, q := range list {
			if !q.gateway || q.known {
				continue
			}
			if of++; len(s.taps.answered(q.from.index, q.of)) == q.before {
				lost = append(lost, q)
			}
		}
		full := crowded() // then a host answers nobody new
		if len(lost) == 0 || !full && (len(lost) > busy.Few(of) || !excused()) {
			break
		}
		if full {
			if err := s.wait(room); err != nil {
				return err
			}
		}
		excused, crowded = s.watch(), busy.Crowded()
		for _, q := range lost {
			if err := q.from.send(q.from.asks(q.of)); err != nil {
				return err
			}
		}
		if err := s.wait(2 * settle); err != nil {
			return err
		}
	}
	for _, q := range list {
		o.Sent++
		said := slices.Clone(s.taps.answered(q.from.index, q.of)[q.before:])
		slices.Sort(said)
		said = slices.Compact(said) // who was asked twice answers twice
		bad := ""
		switch wrong := slices.DeleteFunc(slices.Clone(said), func(mac string) bool {
			return slices.Contains(q.right, mac)
		}); {
		case q.gateway && len(said) == 0 && !q.known:
			bad = "nobody answers"
		case len(said) > 1:
			bad = fmt.Sprintf("%d answer (%v)", len(said), said)
		case len(wrong) > 0:
			bad = fmt.Sprintf("%v answers, and %v has it", wrong, q.right)
		}
		if bad != "" {
			o.Arrived++
			o.hole(fmt.Sprintf("%s asks for %s: %s", q.from.Name, q.of, bad))
		}
	}
	return nil
}

// asks is a frame that asks for a neighbour.
func (e *end) asks(of netip.Addr) []byte {
	if of.Is6() {
		to, p := packet.Solicitation(e.mac, e.Own(true), of)
		return packet.Frame(to, e.mac, packet.TypeIPv6, p)
	}
	p := packet.ARP(packet.Request, e.mac, e.Own(false), make(net.HardwareAddr, 6), of)
	return packet.Frame(packet.Broadcast(), e.mac, packet.TypeARP, p)
}

// gateway is where a gateway is: the link of the host that has its address, or the host's end of the container's link
// where each such end has it, or none but the loopback link.
func (e *end) gateway(gate netip.Addr) []string {
	right := e.outer
	for _, l := range e.machine.links {
		has := slices.ContainsFunc(l.Addresses, func(a netip.Prefix) bool { return a.Addr() == gate })
		switch {
		case has && l.Name == e.Link: // whatever other ends have it too
			return []string{e.outer.String()}
		case has && l.Type != "device":
			right = l.MAC
		}
	}
	return []string{right.String()}
}

// A theft is of an address: frames of the thief, and those that undo it.
type theft struct {
	aim            string // whose address it is, in general
	what           string
	frames, undone [][]byte
	// own is the address that the thief adds to its link meanwhile, if it does. What decides by the addresses of links who
	// receives a packet, such as ipvlan in modes l3 and l3s, believes that.
	own netip.Addr
	// unused is a gateway that does not pass the flow: only the table of neighbours shows whether it was stolen.
	unused netip.Addr
}

// add adds the address to the thief's link, or removes it. The kernel may refuse it: it is in use at another link
// (drivers/net/ipvlan/ipvlan_main.c, ipvlan_addr4_validator_event), or the rights of the container do not suffice.
func (w theft) add(from *end, change func(h *link.Handle, index int, a netip.Prefix) error) error {
	if !w.own.IsValid() {
		return nil
	}
	return from.Within(from.ns, func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		err = change(h, from.at, netip.PrefixFrom(w.own, w.own.BitLen()))
		if errors.Is(err, link.ErrExists) || errors.Is(err, link.ErrNotFound) || errors.Is(err, syscall.EADDRINUSE) {
			return nil
		}
		return err
	})
}

// What takeover aims at.
const (
	sinks    = "sink"
	sources  = "source"
	gateways = "gateway"
)

// takeover says in the name of each container of a pair, and of the gateway of its peer, that they are elsewhere, and
// looks who hears what the peer sends then: a source to its sink, and a sink in answer.
func (s *stand) takeover(o *Outcome, v6 bool) error {
	if len(s.Pairs) == 0 {
		return nil
	}
	if !s.listed(v6) {
		o.NotTried = noPair
		return nil
	}
	o.Aims = map[string]Tally{}
	var flows []*flow
	for _, p := range sampled(s.Pairs, thieves) {
		flow, err := s.flow(s.end(p.Source), s.end(p.Sink), v6)
		if err != nil {
			return err
		}
		defer flow.close()
		back, err := flow.answer(v6)
		if err != nil {
			return err
		}
		if back == nil {
			o.Missing = append(o.Missing, fmt.Sprintf("a datagram from %s to %s", p.Source, p.Sink))
			continue
		}
		defer back.close()
		if flow.answered, err = flow.tracked(); err != nil {
			return err
		}
		flows = append(flows, flow, back)
	}
	if len(flows) == 0 {
		return nil
	}
	for _, f := range flows {
		var list []*end
		for _, e := range s.ends {
			if e != f.source && e != f.sink {
				list = append(list, e)
			}
		}
		done := map[string]bool{}
		for _, from := range sampled(list, max(2, thieves/len(s.Pairs))) {
			if err := s.steal(o, f, from, done, v6); err != nil {
				return err
			}
		}
	}
	if err := s.insist(o, flows[0], flows[1], v6); err != nil {
		return err
	}
	if o.Aims[gateways].Arrived == 0 {
		if apart, err := s.apart(); err != nil {
			return err
		} else if apart { // no theft of it comes to a neighbour, on the control either
			delete(o.Aims, gateways)
		}
	}
	// Attacks that come next need the addresses where they were.
	for _, f := range flows {
		if heard, _, err := f.restore(v6); err != nil {
			return err
		} else if !heard {
			o.Missing = append(o.Missing, fmt.Sprintf("a datagram from %s to %s, after all addresses were given back",
				f.source.Name, f.sink.Name))
		}
	}
	return nil
}

// apart says whether the bridges of hosts pass nothing from one container to another.
func (s *stand) apart() (apart bool, err error) {
	for _, e := range s.ends {
		i := slices.IndexFunc(e.machine.links, func(l link.Surveyed) bool { return l.Name == e.Link })
		if i < 0 {
			return false, nil
		}
		if err := within(e.machine.ns, func(h *link.Handle) (err error) {
			apart, err = h.Isolated(e.machine.links[i].Index)
			return err
		}); err != nil || !apart {
			return false, err
		}
	}
	return true, nil
}

// thieves is from how many pairs is stolen, and how many containers do, over all pairs. If there are more, some do, but
// two from each pair: across hosts, a neighbour of each end.
const thieves = 8

// sampled returns at most some of a list, evenly spread over it.
func sampled[T any](list []T, atMost int) (some []T) {
	n := min(len(list), atMost)
	for i := range n {
		some = append(some, list[i*len(list)/n])
	}
	return some
}

// steal has a container take the addresses that a flow needs, in each way in which nobody has.
func (s *stand) steal(o *Outcome, f *flow, from *end, done map[string]bool, v6 bool) error {
	for _, w := range s.thefts(f, from, v6) {
		if done[w.what] {
			continue
		}
		if err := w.add(from, (*link.Handle).AddAddress); from.refused(err) {
			o.unsent(1, noAddress)
			continue
		} else if err != nil {
			return err
		}
		stolen, heard, err := f.steal(from, w)
		if err := errors.Join(err, w.add(from, (*link.Handle).DeleteAddress), f.undo(from, v6, w.undone)); err != nil {
			return err
		}
		said := fmt.Sprintf("%s %s: what %s sends to %s arrives ", from.Name, w.what, f.source.Name, f.sink.Name)
		switch {
		case stolen && w.unused.IsValid():
			said = fmt.Sprintf("%s %s: %s believes it", from.Name, w.what, f.source.Name)
		case stolen && heard:
			said += "there, too"
		case stolen:
			said += "there, and " + f.sink.Name + " no longer"
		case !heard:
			said += "nowhere"
		}
		if !stolen && heard {
			o.aimed(w.aim, false, said)
			continue
		}
		done[w.what] = true
		// The next theft shows something only if this one is undone.
		again, lasts, err := f.restore(v6)
		if err != nil {
			return err
		}
		if o.aimed(w.aim, true, said+lasts); !again {
			return nil // the end of the attack says so
		}
	}
	return nil
}

// restore undoes a theft for good, and says whether a datagram arrives again and what lasted of the theft: if bridge-nf
// is on, what the bridge gives to a thief passes the firewall of its host. A masqueraded flow that leaves by another
// link is dropped there, and tracked anew (nf_nat_oif_changed, net/netfilter/nf_nat_core.c). Docker's rule does not
// translate what stays on the bridge: then the flow is not translated for as long as it goes on, wherever it leaves.
func (f *flow) restore(v6 bool) (heard bool, lasts string, err error) {
	if heard, err = f.returns(v6); err != nil || !heard {
		return heard, "", err
	}
	now, err := f.tracked()
	if err != nil || now == f.answered || !now.IsValid() || !f.answered.IsValid() {
		return true, "", err
	}
	lasts = fmt.Sprintf("; until its host forgets the flow, answers reach it at %s and not, as before, at %s", now,
		f.answered)
	if err := netns.Do(int(f.source.machine.ns.Fd()), func() error {
		return conntrack.Forget(conntrack.Way{Source: f.at, Destination: f.to})
	}); err != nil {
		return true, lasts, err
	}
	heard, err = f.returns(v6)
	return heard, lasts, err
}

// tracked returns where answers to a flow reach the host of its source; the zero value if the host does not track it.
func (f *flow) tracked() (at netip.AddrPort, err error) {
	m := f.source.machine
	if n, err := m.tracked(); err != nil || n == 0 {
		return at, err
	}
	err = netns.Do(int(m.ns.Fd()), func() error {
		list, err := conntrack.List()
		for _, t := range list {
			if t.Protocol == packet.UDP && t.Original == (conntrack.Way{Source: f.at, Destination: f.to}) {
				at = t.Reply.Destination
			}
		}
		return err
	})
	if errors.Is(err, errors.ErrUnsupported) { // a kernel that does not list what it tracks
		err = nil
	}
	return at, err
}

// thefts are those by a container of the addresses that a flow needs.
func (s *stand) thefts(f *flow, from *end, v6 bool) []theft {
	back := f.sink.announce(f.sink.mac, f.sink.Own(v6))
	list := []theft{
		{
			aim: f.aim, what: "says it has the address of " + f.sink.Name, undone: back,
			frames: append(from.claim(f.sink.Own(v6), append(s.ways(from, f.source), f.source.mac, f.sink.mac)...),
				from.tells(f.source, from.mac, f.sink.Own(v6))),
		},
		{
			aim: f.aim, what: "sends with the MAC address of " + f.sink.Name, undone: back,
			frames: [][]byte{
				packet.Frame(packet.Broadcast(), f.sink.mac, packet.TypeOwn, make([]byte, 46)),
				packet.Frame(packet.Broadcast(), f.sink.mac, packet.TypeARP,
					packet.ARP(packet.Request, f.sink.mac, f.sink.Own(false), make(net.HardwareAddr, 6), f.sink.Own(false))),
			},
		},
		{
			aim: f.aim, what: "has added the address of " + f.sink.Name, undone: back, own: f.sink.Own(v6),
			frames: from.announce(from.mac, from.Own(v6)), // a packet of its own, as honest as it was
		},
	}
	for _, gate := range f.source.gates {
		if mac, err := net.ParseMAC(f.source.gateway(gate)[0]); err == nil && gate.Is6() == v6 {
			w := theft{
				aim: gateways, what: "says it has the address of the gateway " + gate.String(),
				frames: append(from.claim(gate, f.source.mac), from.tells(f.source, from.mac, gate)),
				undone: append(f.sink.announce(mac, gate), f.sink.tells(f.source, mac, gate)),
			}
			direct := f.source.direct(f.to.Addr())
			if direct {
				if w.unused = gate; !f.knows(gate) {
					continue // its filter lets nothing leave for the gateway
				}
			}
			list = append(list, w)
			// Linux believes a redirect of IPv6 only of the link-local address that a route names as its gateway
			// (rt6_do_redirect and ip6_redirect_nh_match, net/ipv6/route.c), and one of IPv4 only of the gateway of the
			// route of what it quotes (__ip_do_redirect, net/ipv4/route.c).
			gateway, thief := hop{gate, mac}, hop{from.Own(false), from.mac}
			if v6 {
				thief.address, _ = linkLocal(from.mac)
			}
			if v6 && gate.IsLinkLocalUnicast() || !v6 && !direct {
				list = append(list, theft{
					aim: gateways, what: "says as the gateway that it is the next hop for " + f.sink.Name,
					// Linux believes one of IPv4 only if it knows the MAC address of the thief: by what the thief asks.
					frames: append([][]byte{from.asks(f.source.Own(v6))}, from.redirect(f, gateway, thief)...),
					// By the gateway's answer, a switch learns its MAC address again.
					undone: append(from.redirect(f, thief, gateway), from.asks(gate)),
				})
			}
		}
	}
	return list
}

// steal makes a theft and says who hears what is sent then.
func (f *flow) steal(from *end, w theft) (stolen, heard bool, err error) {
	if err := from.sendAll(w.frames); err != nil {
		return false, true, err
	}
	if !w.unused.IsValid() {
		stolen, heard = f.send(from)
		return stolen, heard, nil
	}
	if err := f.s.wait(settle / 2); err != nil {
		return false, true, err
	}
	stolen, err = f.source.believes(w.unused, from.mac)
	return stolen, true, err
}

// A hop is a router as its neighbours know it.
type hop struct {
	address netip.Addr
	mac     net.HardwareAddr
}

// redirect has a router tell the source of a flow that another one is nearer to its sink, as Linux believes it: for
// IPv6 with 255 hops to go, between addresses of link scope (RFC 4861, sections 4.5 and 8.1); for IPv4 it quotes a
// packet of the flow (RFC 792). The frames have the sender's own MAC address, and that of the router.
func (e *end) redirect(f *flow, router, better hop) (frames [][]byte) {
	to := f.source.Own(router.address.Is6())
	var p []byte
	if to.Is6() {
		body := slices.Concat(better.address.AsSlice(), f.to.Addr().AsSlice(), []byte{2, 1}, better.mac)
		p = packet.IP(router.address, to, packet.ICMPv6, packet.NDHops,
			packet.Message(router.address, to, 137, 0, 0, body))
	} else {
		p = packet.IP(router.address, to, packet.ICMP, packet.Hops, packet.Message(router.address, to, 5, 1,
			binary.BigEndian.Uint32(better.address.AsSlice()), udp(f.at, f.to, "")))
	}
	for _, way := range f.s.ways(e, f.source) {
		for _, mac := range []net.HardwareAddr{e.mac, router.mac} {
			frames = append(frames, packet.Frame(way, mac, packet.TypeOf(to), p))
		}
	}
	return frames
}

// knows says whether the source finds a gateway, to which it sends something for that.
func (f *flow) knows(gate netip.Addr) bool {
	_, _ = f.socket.WriteToUDPAddrPort(nil, netip.AddrPortFrom(gate, nobodys)) // nobody has to hear it
	return f.s.until(func() bool {
		known, err := f.source.believes(gate, nil)
		return known && err == nil
	}, settle)
}

// believes says whether a container has an address at a MAC address in its table of neighbours; nil is any.
func (e *end) believes(of netip.Addr, mac net.HardwareAddr) (found bool, err error) {
	err = within(e.ns, func(h *link.Handle) error {
		known, err := h.Neighbours(of)
		found = slices.ContainsFunc(known, func(n link.Neighbour) bool {
			return len(n.MAC) > 0 && (mac == nil || slices.Equal(n.MAC, mac))
		})
		return err
	})
	return found, err
}

// direct says whether a container reaches an address by no gateway.
func (e *end) direct(to netip.Addr) bool {
	return slices.ContainsFunc(e.onLink, func(p netip.Prefix) bool { return p.Contains(to) })
}

// aimed notes what came of a theft.
func (o *Outcome) aimed(aim string, arrived bool, said string) {
	t := o.Aims[aim]
	o.Sent, t.Sent = o.Sent+1, t.Sent+1
	if arrived {
		o.Arrived, t.Arrived = o.Arrived+1, t.Arrived+1
		o.hole(said)
	}
	o.Aims[aim] = t
}

// insisting is for how long a container says again that it has an address: longer than Open vSwitch trusts what its
// datapath remembers, which it looks through every 5 s (network/ovs).
const insisting = 6 * time.Second

// insist has a neighbour say again and again that it has an address, while the peer sends: what learns from packets
// need not look at every one. It does so at the same time for all kinds of addresses of which no theft has succeeded.
func (s *stand) insist(o *Outcome, forth, back *flow, v6 bool) error {
	type claim struct {
		theft
		flow *flow
		from *end
	}
	var list []claim
	for _, f := range []*flow{forth, back} {
		for _, aim := range []string{f.aim, gateways} {
			owner := f.sink
			if aim == gateways {
				owner = f.source
			}
			i := slices.IndexFunc(s.ends, func(e *end) bool {
				return e != f.source && e != f.sink && e.machine == owner.machine
			})
			if i < 0 || o.Aims[aim].Arrived > 0 {
				continue
			}
			one := claim{flow: f, from: s.ends[i]}
			for _, w := range s.thefts(f, one.from, v6) {
				if w.aim == aim && !w.own.IsValid() {
					one.aim, one.unused = aim, w.unused
					one.frames, one.undone = append(one.frames, w.frames...), append(one.undone, w.undone...)
				}
			}
			if one.aim != "" {
				list = append(list, one)
			}
		}
	}
	const apart = 200 * time.Millisecond
	stolen := make([]bool, len(list))
	for began := time.Now(); slices.Contains(stolen, false) && time.Since(began) < insisting; time.Sleep(apart) {
		for i, c := range list {
			if stolen[i] {
				continue
			}
			came, heard, err := c.flow.steal(c.from, c.theft)
			if err != nil {
				return err
			}
			stolen[i] = came || !heard
		}
	}
	for i, c := range list {
		whose, then := c.flow.sink.Name, fmt.Sprintf("what %s sends arrives there or nowhere", c.flow.source.Name)
		if c.aim == gateways {
			whose = "the gateway of " + c.flow.source.Name
		}
		if c.unused.IsValid() {
			then = c.flow.source.Name + " believes it"
		}
		o.aimed(c.aim, stolen[i], fmt.Sprintf("%s says for a while that it has the address of %s: %s", c.from.Name, whose,
			then))
		if err := c.flow.undo(c.from, v6, c.undone); err != nil {
			return err
		}
	}
	return nil
}

// undo sends frames that undo a theft, also in the name of the thief, and says where the sink is.
func (f *flow) undo(thief *end, v6 bool, frames [][]byte) error {
	return errors.Join(f.sink.sendAll(frames), thief.sendAll(frames), f.sink.sendAll(f.sink.here(v6, f.source)))
}

// sendAll sends frames.
func (e *end) sendAll(frames [][]byte) error {
	for _, f := range frames {
		if err := e.send(f); err != nil {
			return err
		}
	}
	return nil
}

// here says to all that its address is here, and to another container: the bridges on the way learn from what passes
// them, and a network may flood nothing between hosts. A VXLAN device that answers for neighbours drops all answers of
// ARP (drivers/net/vxlan/vxlan_core.c, arp_reduce): a frame that is none of them passes it, too.
func (e *end) here(v6 bool, other *end) [][]byte {
	frames := e.announce(e.mac, e.Own(v6))
	f := slices.Clone(frames[0])
	copy(f, other.mac)
	return append(frames, f, e.tells(other, e.mac, e.Own(v6)),
		packet.Frame(other.mac, e.mac, packet.TypeOwn, make([]byte, 46)))
}

// claim says to all, and to some, that an address is here.
func (e *end) claim(of netip.Addr, to ...net.HardwareAddr) [][]byte {
	frames := e.announce(e.mac, of)
	for _, mac := range to {
		f := slices.Clone(frames[0])
		copy(f, mac)
		frames = append(frames, f)
	}
	return frames
}

// flowing is which of its ports a source sends from to its sink by a socket.
const flowing = 4

// A flow is of datagrams that are allowed, by a socket of the source.
type flow struct {
	s            *stand
	source, sink *end   // in the answers to a flow, the other way round
	aim          string // what its sink is for pairs
	socket       *net.UDPConn
	at, to       netip.AddrPort
	answered     netip.AddrPort // where answers reached the host of the source before any theft, see tracked
}

// returns says where source and sink are until a datagram arrives again. Open vSwitch learns from what its datapath
// remembers, and looks there every 5 s (network/ovs): it may take a theft for newer than what the sink says now, until
// it looks again.
func (f *flow) returns(v6 bool) (heard bool, err error) {
	for range 20 { // seconds
		for _, e := range [][2]*end{{f.source, f.sink}, {f.sink, f.source}} {
			if err := e[0].sendAll(e[0].here(v6, e[1])); err != nil {
				return false, err
			}
		}
		if _, heard = f.send(nil); heard {
			break
		}
	}
	return heard, nil
}

func (s *stand) flow(source, sink *end, v6 bool) (*flow, error) {
	f := &flow{
		s: s, source: source, sink: sink, aim: sinks, at: netip.AddrPortFrom(source.Own(v6), source.First+flowing),
		to: netip.AddrPortFrom(sink.Public(v6), sink.First),
	}
	return f, f.open()
}

// open opens the socket of a flow.
func (f *flow) open() error {
	return f.source.Within(f.source.ns, func() error {
		return sock.Rebind(func() (err error) { // one socket an attack
			f.socket, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(f.at))
			return err
		})
	})
}

// answer opens the flow of answers to a flow, by a socket of its sink, for the address that the sink sees. It returns
// nil if the sink hears nothing.
func (f *flow) answer(v6 bool) (*flow, error) {
	b := &flow{
		s: f.s, source: f.sink, sink: f.source, aim: sources, at: netip.AddrPortFrom(f.sink.Own(v6), f.sink.First),
	}
	if err := b.open(); err != nil {
		return nil, err
	}
	heard, err := f.returns(v6)
	if err == nil && heard {
		_ = b.socket.SetReadDeadline(time.Now().Add(time.Second))
		if _, b.to, err = b.socket.ReadFromUDPAddrPort(make([]byte, 64)); err == nil {
			heard, err = b.returns(v6)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			heard, err = false, nil
		}
	}
	if err != nil || !heard {
		b.close()
		return nil, err
	}
	return b, nil
}

// send sends datagrams until a thief hears one, or the sink takes one, and says who has. The sink does not take a frame
// for another MAC address that comes to its link. What is heard by nobody is sent some times, as a busy machine is
// late.
func (f *flow) send(thief *end) (stolen, heard bool) {
	const rounds = 16 // about a second
	for range rounds {
		f.s.number++
		key := []byte(f.s.key(f.s.number, 0))
		for range 2 { // the first may report an error that came before
			if _, err := f.socket.WriteToUDPAddrPort(key, f.to); err == nil {
				break // what cannot be sent is heard by nobody
			}
		}
		stolen = f.s.until(func() bool {
			heard = heard || len(f.s.taps.got(inside, f.sink.index, f.s.number)) > 0
			return thief != nil && len(f.s.taps.got(atLink, thief.index, f.s.number)) > 0
		}, settle/2)
		if stolen || heard {
			break
		}
	}
	return stolen, heard
}

func (f *flow) close() { _ = f.socket.Close() }
