package attack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
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
	ask := func(q question) error {
		if v6 {
			to, p := packet.Solicitation(q.from.mac, q.from.Own(true), q.of)
			return q.from.send(packet.Frame(to, q.from.mac, packet.TypeIPv6, p))
		}
		p := packet.ARP(packet.Request, q.from.mac, q.from.Own(false), make(net.HardwareAddr, 6), q.of)
		return q.from.send(packet.Frame(packet.Broadcast(), q.from.mac, packet.TypeARP, p))
	}
	excused, crowded := s.watch(), busy.Crowded()
	for i, q := range list {
		list[i].before = len(s.taps.answered(q.from.index, q.of))
		if err := ask(q); err != nil {
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
			if err := ask(q); err != nil {
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
	what           string
	frames, undone [][]byte
	// own is the address that the thief adds to its link meanwhile, if it does. What decides by the addresses of links who
	// receives a packet, such as ipvlan in modes l3 and l3s, believes that.
	own netip.Addr
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

// takeover says in the name of the sink of the first pair, and of the gateway of its source, that they are elsewhere,
// and looks who hears what the source sends then.
func (s *stand) takeover(o *Outcome, v6 bool) error {
	if len(s.Pairs) == 0 {
		return nil
	}
	if !s.listed(v6) {
		o.NotTried = noPair
		return nil
	}
	source, sink := s.end(s.Pairs[0].Source), s.end(s.Pairs[0].Sink)
	flow, err := s.flow(source, sink, v6)
	if err != nil {
		return err
	}
	defer flow.close()
	if heard, err := flow.returns(v6); err != nil || !heard {
		o.Missing = append(o.Missing, fmt.Sprintf("a datagram from %s to %s", source.Name, sink.Name))
		return err
	}
	for _, from := range s.ends {
		if from == source || from == sink {
			continue
		}
		ways := []theft{
			{
				"says it has the address of " + sink.Name,
				from.claim(sink.Own(v6), append(s.ways(from, source), source.mac, sink.mac)...),
				sink.announce(sink.mac, sink.Own(v6)),
				netip.Addr{},
			},
			{
				"sends with the MAC address of " + sink.Name,
				[][]byte{
					packet.Frame(packet.Broadcast(), sink.mac, packet.TypeOwn, make([]byte, 46)),
					packet.Frame(packet.Broadcast(), sink.mac, packet.TypeARP,
						packet.ARP(packet.Request, sink.mac, sink.Own(false), make(net.HardwareAddr, 6), sink.Own(false))),
				},
				sink.announce(sink.mac, sink.Own(v6)),
				netip.Addr{},
			},
			{
				"has added the address of " + sink.Name,
				from.announce(from.mac, from.Own(v6)), // a packet of its own, as honest as it was
				sink.announce(sink.mac, sink.Own(v6)),
				sink.Own(v6),
			},
		}
		for _, gate := range source.gates {
			if mac, err := net.ParseMAC(source.gateway(gate)[0]); err == nil && gate.Is6() == v6 {
				ways = append(ways, theft{
					"says it has the address of the gateway " + gate.String(), from.claim(gate, source.mac), sink.announce(mac, gate),
					netip.Addr{},
				})
			}
		}
		for _, w := range ways {
			if err := w.add(from, (*link.Handle).AddAddress); from.refused(err) {
				o.unsent(1, noAddress)
				continue
			} else if err != nil {
				return err
			}
			o.Sent++
			err := from.sendAll(w.frames)
			var stolen, heard bool
			if err == nil {
				stolen, heard = flow.send(from)
			}
			if err := errors.Join(err, w.add(from, (*link.Handle).DeleteAddress), flow.undo(from, v6, w.undone)); err != nil {
				return err
			}
			if stolen {
				o.Arrived++
				cut := "too"
				if !heard {
					cut = "and " + sink.Name + " no longer"
				}
				o.hole(fmt.Sprintf("%s %s: what %s sends to %s arrives there, %s", from.Name, w.what, source.Name, sink.Name, cut))
			} else if !heard {
				o.Arrived++
				o.hole(fmt.Sprintf("%s %s: what %s sends to %s arrives nowhere", from.Name, w.what, source.Name, sink.Name))
			}
		}
	}
	if o.Arrived == 0 {
		if err := s.insist(o, flow, v6); err != nil {
			return err
		}
	}
	// Attacks that come next need the addresses where they were.
	if heard, err := flow.returns(v6); err != nil || !heard {
		o.Missing = append(o.Missing, fmt.Sprintf("a datagram from %s to %s, after all addresses were given back",
			source.Name, sink.Name))
		return err
	}
	return nil
}

// insisting is for how long a container says again that it has an address: longer than Open vSwitch trusts what its
// datapath remembers, which it looks through every 5 s (network/ovs).
const insisting = 6 * time.Second

// insist has a neighbour of the sink say again and again that it has the sink's address, while the source sends: what
// learns from packets need not look at every one.
func (s *stand) insist(o *Outcome, f *flow, v6 bool) error {
	i := slices.IndexFunc(s.ends, func(e *end) bool {
		return e != f.source && e != f.sink && e.machine == f.sink.machine
	})
	if i < 0 {
		return nil
	}
	from := s.ends[i]
	frames := slices.Concat(
		from.claim(f.sink.Own(v6), append(s.ways(from, f.source), f.source.mac, f.sink.mac)...),
		[][]byte{packet.Frame(packet.Broadcast(), f.sink.mac, packet.TypeOwn, make([]byte, 46))},
	)
	const apart = 200 * time.Millisecond
	stolen := false
	for began := time.Now(); !stolen && time.Since(began) < insisting; time.Sleep(apart) {
		if err := from.sendAll(frames); err != nil {
			return err
		}
		stolen, _ = f.send(from)
	}
	if o.Sent++; stolen {
		o.Arrived++
		o.hole(fmt.Sprintf("%s says for a while that it has the address of %s: what %s sends arrives there", from.Name,
			f.sink.Name, f.source.Name))
	}
	return f.undo(from, v6, f.sink.announce(f.sink.mac, f.sink.Own(v6)))
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
// them, and a network may flood nothing between hosts.
func (e *end) here(v6 bool, other *end) [][]byte {
	frames := e.announce(e.mac, e.Own(v6))
	f := slices.Clone(frames[0])
	copy(f, other.mac)
	return append(frames, f)
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
	source, sink *end
	socket       *net.UDPConn
	to           netip.AddrPort
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
	f := &flow{s: s, source: source, sink: sink, to: netip.AddrPortFrom(sink.Public(v6), sink.First)}
	err := source.Within(source.ns, func() error {
		return sock.Rebind(func() (err error) { // one socket an attack
			at := netip.AddrPortFrom(source.Own(v6), source.First+flowing)
			f.socket, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
			return err
		})
	})
	return f, err
}

// send sends datagrams until a thief hears one, or the sink does, and says who has. What is heard by nobody is sent
// some times, as a busy machine is late.
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
			heard = heard || len(f.s.taps.got(atLink, f.sink.index, f.s.number)) > 0
			return thief != nil && len(f.s.taps.got(atLink, thief.index, f.s.number)) > 0
		}, settle/2)
		if stolen || heard {
			break
		}
	}
	return stolen, heard
}

func (f *flow) close() { _ = f.socket.Close() }
