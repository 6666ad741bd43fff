package filtertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/packet"
)

// A smuggler makes packets that no socket sends, from inside of a container whose root means no good, past whatever
// filters the container has itself.
type smuggler struct {
	c       *trial
	s       *stand
	heard   *ears
	listed  func(family string) bool
	sockets map[string]*os.File // by the names of containers
	list    []attempt
	number  int
	dials   *sync.WaitGroup // what takes its time
}

// smuggle returns what is tried: frames from each container to each other.
func (c *trial) smuggle(s *stand, heard *ears, listed func(family string) bool, dials *sync.WaitGroup) ([]attempt,
	error,
) {
	m := &smuggler{c: c, s: s, heard: heard, listed: listed, sockets: map[string]*os.File{}, dials: dials}
	ends := s.ends()
	known := map[string]addresses{}
	for _, e := range ends {
		var err error
		if known[e.name], err = m.open(e); err != nil {
			return nil, err
		}
	}
	for _, from := range ends {
		for _, to := range ends {
			if from.spot == to.spot {
				continue
			}
			sender := known[from.name]
			ways := append([]net.HardwareAddr{known[to.name].own}, sender.host...)
			for _, family := range []string{"ipv4", "ipv6"} {
				m.between(way{smuggler: m, from: from, to: to, family: family, own: sender.own, macs: ways})
			}
		}
	}
	hosts, err := s.keepers(heard)
	if err != nil {
		return nil, err
	}
	for _, from := range ends {
		var others []net.HardwareAddr
		for _, e := range ends {
			if e.spot != from.spot && e.spot.Host == from.spot.Host {
				others = append(others, known[e.name].own)
			}
		}
		m.toHosts(from, known[from.name], others, hosts)
		m.fromHosts(from, hosts)
	}
	return m.list, nil
}

// addresses are those of a container's link, and of the links of its host that take its frames.
type addresses struct {
	own  net.HardwareAddr
	host []net.HardwareAddr
}

// open opens a socket at the link of a container, and hears what comes there.
func (m *smuggler) open(e end) (a addresses, err error) {
	inner, err := e.kernel.Links(e.Namespace)
	if err != nil {
		return a, err
	}
	own, err := inner.ByName(e.Inner)
	if err != nil {
		return a, fmt.Errorf("link %q of %s: %w", e.Inner, e.name, err)
	}
	f, err := inside(e, func() (*os.File, error) { return sock.Frames(own.Index) })
	if err != nil {
		return a, err
	}
	m.sockets[e.name] = f
	m.heard.closers = append(m.heard.closers, f.Close)
	if m.c.where.Point == network.InContainer {
		if err := m.heard.messages(e); err != nil { // what comes to the link has not been filtered yet
			return a, err
		}
	} else {
		m.heard.group.Go(func() { m.heard.find(e, f.Read) })
	}
	a.own = own.MAC
	outer, err := e.kernel.Links("")
	if err != nil {
		return a, err
	}
	links, err := outer.List()
	if err != nil {
		return a, err
	}
	master := 0
	for _, l := range links {
		if l.Name == e.Link {
			master = l.Master
		}
	}
	for _, l := range links {
		if l.Name == e.Link || l.Name == m.c.bridge || master != 0 && l.Index == master {
			a.host = append(a.host, l.MAC)
		}
	}
	return a, nil
}

// A way is from one container to another, over a family.
type way struct {
	*smuggler
	from, to end
	family   string
	own      net.HardwareAddr   // the sender's
	macs     []net.HardwareAddr // whom frames are for
}

// key is what whoever hears a packet knows it by.
func (w way) key() string {
	w.number++
	return fmt.Sprintf("<<%s %d>>", w.from.name, w.number)
}

// try adds an attempt: frames to each of those whom they are for, made for it.
func (w way) try(what string, want bool, key string, made func(to net.HardwareAddr) [][]byte) {
	text := fmt.Sprintf("%s, %s from %s to %s", what, w.family, w.from.name, w.to.name)
	w.list = append(w.list, attempt{text: text, want: want, key: key, try: func() error {
		for _, mac := range w.macs {
			for _, frame := range made(mac) {
				// A queue that is full drops the frame: what may pass is tried again.
				if _, err := w.sockets[w.from.name].Write(frame); err != nil && !refusedAtOnce(err) &&
					!errors.Is(err, syscall.ENOBUFS) {
					return err
				}
			}
		}
		return nil
	}})
}

// send adds an attempt with one packet of IP.
func (w way) send(what string, want bool, key string, sent []byte) {
	w.try(what, want, key, func(to net.HardwareAddr) [][]byte {
		return [][]byte{packet.Frame(to, w.own, packet.TypeOf(w.to.Bind(w.family)), sent)}
	})
}

// between tries everything one way.
func (m *smuggler) between(w way) {
	from, to := w.from.Bind(w.family), w.to.Bind(w.family)
	w.honest(from, to)
	w.sourcePorts(from, to)
	w.messages(from, to)
	w.errors(from, to)
	if to.Is6() {
		w.options(from, to)
	}
}

// may says whether a datagram from here to the first port of the other container is one of the list, by addresses that
// stay what they are.
func (w way) may() bool {
	return !w.c.translated && w.listed(w.family) && w.s.paired(w.from, w.to)
}

// allowed is that datagram.
func (w way) allowed(from, to netip.Addr, payload string) []byte {
	return packet.Datagram(netip.AddrPortFrom(from, w.from.ports.Last), netip.AddrPortFrom(to, w.to.ports.First), payload)
}

// honest sends an allowed datagram in a frame of its own, as the dishonest ones are: if it does not pass, nothing here
// shows anything.
func (w way) honest(from, to netip.Addr) {
	if w.may() {
		key := w.key()
		w.send("an allowed datagram", true, key, packet.IP(from, to, packet.UDP, packet.Hops, w.allowed(from, to, key)))
	}
}

// sourcePorts sends from the service port of a sink to its source, as if it answered. With connection tracking nothing
// passes, since it answers nothing. Without it, packets pass to the source's own ports, from the first of them to the
// last ephemeral one, and to no other. It also sends from a source to the service port: that passes from the source's
// own ports only.
func (w way) sourcePorts(from, to netip.Addr) {
	if w.c.translated { // who sends and to whom is not to be seen in the addresses
		return
	}
	listed := w.listed(w.family)
	send := func(what string, want bool, protocol, flags byte, a, b uint16) {
		key := w.key()
		at, dest := netip.AddrPortFrom(from, a), netip.AddrPortFrom(to, b)
		body := packet.Datagram(at, dest, key)
		if protocol == packet.TCP {
			body = packet.Segment(at, dest, flags, key)
		}
		w.send(fmt.Sprintf("%s (protocol %d, flags %#x) from port %d to port %d", what, protocol, flags, a, b), want, key,
			packet.IP(from, to, protocol, packet.Hops, body))
	}
	each := func(what string, want func(syn bool) bool, ports [][2]uint16) {
		for _, p := range ports {
			send(what, want(false), packet.UDP, 0, p[0], p[1])
			for _, flags := range []byte{
				packet.SYN, packet.ACK, packet.SYN | packet.ACK, packet.RST | packet.ACK, packet.FIN | packet.PSH | packet.ACK,
			} {
				if w.c.params.On(filter.Stateful) && flags != packet.SYN && want(false) {
					continue // what opens nothing and is of no connection: some take it up, some do not
				}
				send(what, want(flags == packet.SYN), packet.TCP, flags, p[0], p[1])
			}
		}
	}
	others := func(p network.Ports) []uint16 { return []uint16{1, 22, p.First - 1, p.Last + 1, nobodys, 65_535} }
	never := func(bool) bool { return false }
	switch {
	case w.s.paired(w.to, w.from): // a sink to its source
		service := w.from.ports.First
		inside := [][2]uint16{{service, w.to.sending.First + 5}} // no connection of the suite is from there
		if !w.c.params.On(filter.Stateful) {
			inside = append(inside, [2]uint16{service, w.to.sending.First}, [2]uint16{service, w.to.sending.Last})
		}
		var outside [][2]uint16
		for _, port := range others(w.to.sending) {
			outside = append(outside, [2]uint16{service, port})
		}
		each("an answer that nobody has asked for", func(syn bool) bool {
			return listed && !syn && !w.c.params.On(filter.Stateful)
		}, inside)
		each("an answer to a port that is none of the pair's", never, outside)
	case w.s.paired(w.from, w.to):
		service := w.to.ports.First
		inside := [][2]uint16{
			{w.from.sending.First, service},
			{w.from.sending.First + 4, service},
			{w.from.sending.Last, service},
		}
		var outside [][2]uint16
		for _, port := range others(w.from.sending) {
			outside = append(outside, [2]uint16{port, service})
		}
		each("a packet from a port of the pair", func(bool) bool { return listed }, inside)
		each("a packet from a port that is none of the pair's", never, outside)
	}
}

// messages sends those of ICMP that a network needs on one link, or nobody needs: neighbour discovery that comes from
// elsewhere, routers that are none, and what only looks like that.
func (w way) messages(from, to netip.Addr) {
	send := func(what string, kind, hops byte) {
		key := w.key()
		body := append(to.AsSlice(), key...)
		w.send(what, false, key, packet.IP(from, to, packet.ICMPOf(to), hops, packet.Message(from, to, kind, 0, 0, body)))
	}
	if !to.Is6() {
		send("a redirect", 5, packet.Hops)
		send("a router's advertisement", 9, packet.Hops)
		send("a question for the time", 13, packet.Hops)
		key := w.key()
		w.send("neighbour discovery over IPv4", false, key,
			packet.IP(from, to, packet.ICMPv6, packet.NDHops, packet.Message(from, to, 135, 0, 0, append(to.AsSlice(), key...))))
		return
	}
	send("a neighbour's solicitation that was forwarded", 135, packet.Hops)
	send("a neighbour's advertisement that was forwarded", 136, packet.Hops)
	send("a router's solicitation", 133, packet.NDHops)
	send("a router's advertisement", 134, packet.NDHops)
	send("a redirect", 137, packet.NDHops)
	key := w.key()
	w.send("an echo of ICMP over IPv6", false, key,
		packet.IP(from, to, packet.ICMP, packet.Hops, packet.Message(from, to, 8, 0, 0, []byte(key))))
	if w.c.where.Point == network.InContainer {
		return // nobody forwards
	}
	// on one link they are needed; forwarded beyond it they are a way to tell somebody something
	for _, kind := range []byte{135, 136} {
		key := w.key()
		w.send(fmt.Sprintf("neighbour discovery (%d) that is forwarded", kind), false, key+forwarded,
			packet.IP(from, to, packet.ICMPv6, packet.NDHops,
				packet.Message(from, to, kind, 0, 0, append(to.AsSlice(), key...))))
	}
}

// errors sends errors of ICMP about packets that were too big.
func (w way) errors(from, to netip.Addr) {
	if w.c.translated {
		return // what has no ports is for the host itself
	}
	about := func(what string, want bool, a, b netip.AddrPort) {
		key := w.key()
		quoted := packet.IP(a.Addr(), b.Addr(), packet.UDP, packet.Hops, packet.Datagram(a, b, key))
		w.send("an error about "+what, want, key,
			packet.IP(from, to, packet.ICMPOf(to), packet.Hops, packet.TooBig(from, to, w.s.Lab.MTU, quoted)))
	}
	about("a flow that is none", false, netip.AddrPortFrom(to, nobodys), netip.AddrPortFrom(from, nobodys))
	for _, p := range w.s.pairs {
		source, sink := w.s.end(p.Source), w.s.end(p.Sink)
		if w.from.spot != p.Sink {
			continue
		}
		// The flow is one that the suite has opened by a socket, see refusals.
		a, b := netip.AddrPortFrom(source.Bind(w.family), source.ports.First+2),
			netip.AddrPortFrom(sink.Bind(w.family), sink.ports.First)
		if w.to.spot == p.Source {
			about("a flow that is allowed", w.listed(w.family) && w.c.errors == filter.ByConnection, a, b)
		} else {
			about("a flow of somebody else", false, a, b)
		}
	}
}

// options puts headers between that of IPv6 and that with the ports of what is allowed: a filter says whether it looks
// behind them. What is refused is that also behind them ([proof/threat].Options).
func (w way) options(from, to netip.Addr) {
	if !w.may() {
		return
	}
	for _, c := range []struct {
		what    string
		headers []byte
	}{
		{"hop-by-hop options", []byte{packet.HopByHop}},
		{"options for the destination", []byte{packet.Destinations}},
		{"options for both", []byte{packet.HopByHop, packet.Destinations}},
	} {
		key := w.key()
		next, payload := packet.Behind(c.headers, packet.UDP, w.allowed(from, to, key))
		w.send("an allowed datagram behind "+c.what, w.c.extensions == filter.Followed, key,
			packet.IP(from, to, next, packet.Hops, payload))
	}
}
