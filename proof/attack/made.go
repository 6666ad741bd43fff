package attack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/packet"
)

// named is which of its ports a source sends from here, and from nowhere else: where connections are known, this one
// stays.
const named = 6

// madeUp has root of the host of each source send packets in the name of its containers, and in its own, to the
// containers of another host, and likewise back. That host decides them, although nobody filters what a host sends
// itself: those that the list allows arrive.
func (s *stand) madeUp(ctx context.Context) (Held, error) {
	var list []probe
	s.pairs(func(source, sink *end) {
		for _, v6 := range families() {
			if s.listed(v6) && len(s.Places) > source.machine.index {
				list = append(list, s.inNames(source, sink, v6)...)
			}
		}
	})
	return s.held(ctx, MadeUp, "of what a host makes up in the name of others, another host lets in only what the list "+
		"allows", list)
}

// inNames are packets from the host of a source to its sink, and back.
func (s *stand) inNames(source, sink *end, v6 bool) (list []probe) {
	from, to := source.Public(v6), sink.Public(v6)
	places := s.Places[source.machine.index]
	names := []netip.Addr{places[len(places)-1].of(v6)}
	for _, e := range s.ends {
		names = append(names, e.Public(v6))
	}
	add := func(what string, want bool, as *end, a, b netip.AddrPort) {
		m := as.machine
		p := probe{
			text: fmt.Sprintf("%s, of %s from %s to %s", what, m.name, a, b), v6: v6, own: m, ends: true,
			expect: expect(want || !s.Filtered),
			send: func(key string) (int, error) {
				return 1, netns.Do(int(m.ns.Fd()), func() error {
					return sock.SendWhole(b.Addr(),
						packet.IP(a.Addr(), b.Addr(), packet.UDP, packet.Hops, packet.Datagram(a, b, key)))
				})
			},
		}
		// an encryption takes from a host only what is of its addresses there
		if p.expect == passes && !want && !slices.Contains(names, a.Addr()) {
			p.expect = either
		}
		list = append(list, p)
	}
	allowed, first := netip.AddrPortFrom(from, source.First+named), netip.AddrPortFrom(to, sink.First)
	add("an allowed datagram", true, source, allowed, first)
	add("a datagram to a port that is not allowed", false, source, allowed, netip.AddrPortFrom(to, sink.Last))
	if s.translates() {
		return list // no other port of the host is a container's, and its address is that of all of them
	}
	add("a datagram to a port of nobody", false, source, allowed, netip.AddrPortFrom(to, ssh))
	add("a datagram from a port that is not allowed", false, source, netip.AddrPortFrom(from, nobodys), first)
	add("what looks like an answer", false, sink, first, netip.AddrPortFrom(from, ssh))
	for _, e := range s.ends {
		if e.machine == source.machine && e != source {
			add("a datagram in the name of another container", false, source,
				netip.AddrPortFrom(e.Public(v6), source.First+named), first)
		}
	}
	for _, place := range places {
		add("a datagram in its own name, on "+place.Name, false, source,
			netip.AddrPortFrom(place.of(v6), source.First+named), first)
	}
	return list
}

// of returns its address of a family.
func (p Place) of(v6 bool) netip.Addr {
	if v6 {
		return p.IPv6
	}
	return p.IPv4
}
