package filtertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/network"
)

// A smuggler makes packets that no socket sends, from inside of a container whose root means no good, past whatever filters the container has itself.
type smuggler struct {
	c       *trial
	s       *stand
	heard   *ears
	listed  func(family string) bool
	sockets map[string]*os.File // by the names of containers
	list    []attempt
	number  int
}

// smuggle returns what is tried: frames from each container to each other.
func (c *trial) smuggle(s *stand, heard *ears, listed func(family string) bool) ([]attempt, error) {
	m := &smuggler{c: c, s: s, heard: heard, listed: listed, sockets: map[string]*os.File{}}
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
				if _, err := w.sockets[w.from.name].Write(frame); err != nil && !refusedAtOnce(err) && !errors.Is(err, syscall.ENOBUFS) {
					return err
				}
			}
		}
		return nil
	}})
}

// send adds an attempt with one packet of IP.
func (w way) send(what string, want bool, key string, packet []byte) {
	w.try(what, want, key, func(to net.HardwareAddr) [][]byte {
		return [][]byte{frame(to, w.own, kindOf(w.to.Bind(w.family)), packet)}
	})
}

// between tries everything one way.
func (m *smuggler) between(w way) {
	from, to := w.from.Bind(w.family), w.to.Bind(w.family)
	w.frames(from, to)
	w.messages(from, to)
	w.errors(from, to)
	if to.Is6() {
		w.options(from, to)
	}
	w.fragments(from, to)
}

// refused is a datagram to a port of the other container that no list has.
func (w way) refused(from, to netip.Addr, payload string) []byte {
	return datagram(netip.AddrPortFrom(from, nobodys), netip.AddrPortFrom(to, w.to.ports.Last), payload)
}

// may says whether a datagram from here to the first port of the other container is one of the list, by addresses that stay what they are.
func (w way) may() bool {
	return !w.c.translated && w.listed(w.family) && w.s.paired(w.from, w.to)
}

// allowed is that datagram.
func (w way) allowed(from, to netip.Addr, payload string) []byte {
	return datagram(netip.AddrPortFrom(from, nobodys), netip.AddrPortFrom(to, w.to.ports.First), payload)
}

// frames hides a refused packet in frames that are none of IP. An allowed one that is not hidden passes, or nothing here shows anything.
func (w way) frames(from, to netip.Addr) {
	if w.may() {
		key := w.key()
		w.send("an allowed datagram", true, key, packet(from, to, protocolUDP, hops, w.allowed(from, to, key)))
	}
	type tags = [][2]uint16
	for _, c := range []struct {
		what string
		tags tags
	}{
		{"in no VLAN, by its tag", tags{{typeVLAN, 0}}},
		{"in a VLAN", tags{{typeVLAN, 7}}},
		{"with a tag of QinQ", tags{{typeService, 0}}},
		{"in no VLAN of no VLAN", tags{{typeService, 0}, {typeVLAN, 0}}},
		{"in no VLAN, twice", tags{{typeVLAN, 0}, {typeVLAN, 0}}},
		{"in no VLAN, three times", tags{{typeVLAN, 0}, {typeVLAN, 0}, {typeVLAN, 0}}},
		{"in a VLAN of a VLAN", tags{{typeService, 7}, {typeVLAN, 9}}},
	} {
		key := w.key()
		p := packet(from, to, protocolUDP, hops, w.refused(from, to, key))
		w.try("a datagram "+c.what, false, key, func(mac net.HardwareAddr) [][]byte {
			return [][]byte{tagged(frame(mac, w.own, kindOf(to), p), c.tags...)}
		})
	}
	for _, c := range []struct {
		what string
		wrap func(mac net.HardwareAddr, packet []byte) []byte
	}{
		{"in a session of PPPoE", func(mac net.HardwareAddr, p []byte) []byte { return frame(mac, w.own, typePPPoE, session(to, p)) }},
		{"in a session of PPPoE in no VLAN", func(mac net.HardwareAddr, p []byte) []byte {
			return tagged(frame(mac, w.own, typePPPoE, session(to, p)), [2]uint16{typeVLAN, 0})
		}},
		{"in a frame of SNAP", func(mac net.HardwareAddr, p []byte) []byte { // RFC 1042
			return frame(mac, w.own, uint16(8+len(p)), append([]byte{0xaa, 0xaa, 3, 0, 0, 0, byte(kindOf(to) >> 8), byte(kindOf(to) & 0xff)}, p...))
		}},
		{"in a frame of no known type", func(mac net.HardwareAddr, p []byte) []byte { return frame(mac, w.own, typeOwn, p) }},
	} {
		key := w.key()
		p := packet(from, to, protocolUDP, hops, w.refused(from, to, key))
		w.try("a datagram "+c.what, false, key, func(mac net.HardwareAddr) [][]byte { return [][]byte{c.wrap(mac, p)} })
	}
}

// messages sends those of ICMP that a network needs on one link, or nobody needs: neighbour discovery that comes from elsewhere, routers that are none, and what only looks like that.
func (w way) messages(from, to netip.Addr) {
	send := func(what string, kind, hops byte) {
		key := w.key()
		body := append(to.AsSlice(), key...)
		w.send(what, false, key, packet(from, to, icmpOf(to), hops, message(from, to, kind, 0, 0, body)))
	}
	if !to.Is6() {
		send("a redirect", 5, hops)
		send("a router's advertisement", 9, hops)
		send("a question for the time", 13, hops)
		key := w.key()
		w.send("neighbour discovery over IPv4", false, key, packet(from, to, protocolICMPv6, ndHops, message(from, to, 135, 0, 0, append(to.AsSlice(), key...))))
		return
	}
	send("a neighbour's solicitation that was forwarded", 135, hops)
	send("a neighbour's advertisement that was forwarded", 136, hops)
	send("a router's solicitation", 133, ndHops)
	send("a router's advertisement", 134, ndHops)
	send("a redirect", 137, ndHops)
	key := w.key()
	w.send("an echo of ICMP over IPv6", false, key, packet(from, to, protocolICMP, hops, message(from, to, 8, 0, 0, []byte(key))))
	if w.c.where.Point == network.InContainer {
		return // nobody forwards
	}
	for _, kind := range []byte{135, 136} { // on one link they are needed; forwarded beyond it they are a way to tell somebody something
		key := w.key()
		w.send(fmt.Sprintf("neighbour discovery (%d) that is forwarded", kind), false, key+forwarded, packet(from, to, protocolICMPv6, ndHops, message(from, to, kind, 0, 0, append(to.AsSlice(), key...))))
	}
}

// errors sends errors of ICMP about packets that were too big.
func (w way) errors(from, to netip.Addr) {
	if w.c.translated {
		return // what has no ports is for the host itself
	}
	about := func(what string, want bool, a, b netip.AddrPort) {
		key := w.key()
		quoted := packet(a.Addr(), b.Addr(), protocolUDP, hops, datagram(a, b, key))
		w.send("an error about "+what, want, key, packet(from, to, icmpOf(to), hops, tooBig(from, to, w.s.Lab.MTU, quoted)))
	}
	about("a flow that is none", false, netip.AddrPortFrom(to, nobodys), netip.AddrPortFrom(from, nobodys))
	for _, p := range w.s.pairs {
		source, sink := w.s.end(p.Source), w.s.end(p.Sink)
		if w.from.spot != p.Sink {
			continue
		}
		// The flow is one that the suite has opened by a socket, see refusals.
		a, b := netip.AddrPortFrom(source.Bind(w.family), source.ports.First+2), netip.AddrPortFrom(sink.Bind(w.family), sink.ports.First)
		if w.to.spot == p.Source {
			about("a flow that is allowed", w.listed(w.family) && w.c.errors == filter.ByConnection, a, b)
		} else {
			about("a flow of somebody else", false, a, b)
		}
	}
}

// options puts headers between that of IPv6 and that with the ports.
func (w way) options(from, to netip.Addr) {
	many := slices.Repeat([]byte{headerDestinations}, 8)
	for _, c := range []struct {
		what    string
		headers []byte
		may     bool
	}{
		{"hop-by-hop options", []byte{headerHopByHop}, true},
		{"options for the destination", []byte{headerDestinations}, true},
		{"options for both", []byte{headerHopByHop, headerDestinations}, true},
		{"a route that has ended", []byte{headerRouting}, false},
		{"a fragment that is the whole", []byte{headerFragment}, false},
		{"options before and behind a fragment that is the whole", []byte{headerHopByHop, headerFragment, headerDestinations}, false},
		{"options eight times", many, false},
	} {
		key := w.key()
		next, payload := behind(c.headers, protocolUDP, w.refused(from, to, key))
		w.send("a datagram behind "+c.what, false, key, packet(from, to, next, hops, payload))
		if !c.may || !w.may() {
			continue
		}
		key = w.key()
		next, payload = behind(c.headers, protocolUDP, w.allowed(from, to, key))
		w.send("an allowed datagram behind "+c.what, w.c.extensions == filter.Followed, key, packet(from, to, next, hops, payload))
	}
}

// fragments cuts a refused datagram: behind its ports, and in IPv6 before them, behind options. The key is in both halves, so that only the whole tells it.
func (w way) fragments(from, to netip.Addr) {
	cut := func(what string, made func(key string) (next byte, payload []byte, at int)) {
		key := w.key()
		for len(key) < 16 {
			key = "<" + key + ">"
		}
		next, payload, at := made(key)
		w.try(what, false, key, func(mac net.HardwareAddr) (list [][]byte) {
			w.number++
			for _, p := range fragmentsOf(from, to, next, payload, at, uint16(w.number)) {
				list = append(list, frame(mac, w.own, kindOf(to), p))
			}
			return list
		})
	}
	cut("a datagram in fragments", func(key string) (byte, []byte, int) { return protocolUDP, w.refused(from, to, key), 16 })
	if !to.Is6() {
		return
	}
	cut("a datagram whose ports are in the second fragment", func(key string) (byte, []byte, int) {
		next, payload := behind([]byte{headerDestinations}, protocolUDP, w.refused(from, to, key))
		return next, payload, 8
	})
}
