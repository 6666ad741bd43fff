package attack

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/proof/packet"
)

// between adds probes of one packet each from a container to another, in frames for every link that could take it.
func (s *stand) between(list *[]probe, from, to *end, v6 bool) adder {
	return func(what string, want bool, made func(key string) []byte) {
		*list = append(*list, probe{
			text: told(what, from, to, v6), v6: v6, from: from, expect: expect(want),
			send: framed(from, func(key string) [][]byte { return from.in(made(key), s.ways(from, to)...) }),
		})
	}
}

// An adder adds a probe, which is to pass or not, of one packet.
type adder func(what string, want bool, made func(key string) []byte)

// each yields each ordered two containers in each family.
func (s *stand) each(f func(from, to *end, v6 bool)) {
	for _, v6 := range families() {
		s.others(func(from, to *end) { f(from, to, v6) })
	}
}

// honest sends a datagram that is on the list as the others are sent. If it does not pass, nothing is shown by them.
func (s *stand) honest(list *[]probe, from, to *end, v6 bool) {
	if s.may(from, to, v6) {
		a, b := netip.AddrPortFrom(from.Own(v6), from.First+replied), netip.AddrPortFrom(to.Own(v6), to.First)
		s.between(list, from, to, v6)("an allowed datagram", true, func(key string) []byte { return udp(a, b, key) })
	}
}

const (
	// replied is which of its ports a source sends from in frames. An answer to it may pass afterwards.
	replied = 9
	// unused is which of its ports no flow of a claim or an attack is from.
	unused = 5
)

// ownPorts sends from the service's port of a sink to its source, as if it answered. With connection tracking nothing
// passes, since it answers nothing. Without it packets pass to the source's own ports, from the first to the last, and
// to no other. It also sends from a source to the service's port: that passes from the source's own ports only.
func (s *stand) ownPorts(ctx context.Context) (Held, error) {
	var list []probe
	s.each(func(from, to *end, v6 bool) {
		if s.translates() { // who sends and to whom is not to be seen in the addresses
			return
		}
		s.honest(&list, from, to, v6)
		switch never := func(bool) bool { return false }; {
		case s.paired(to, from):
			inside := []uint16{to.First + unused}
			if !s.Stateful {
				inside = append(inside, to.First, to.Last)
			}
			for _, port := range inside {
				s.flagged(&list, from, to, v6, "an answer that nobody has asked for", from.First, port, func(syn bool) bool {
					return s.listed(v6) && !syn && !s.Stateful
				})
			}
			for _, port := range strangePorts(to) {
				s.flagged(&list, from, to, v6, "an answer to a port that is none of the pair's", from.First, port, never)
			}
		case s.paired(from, to):
			for _, port := range []uint16{from.First, from.First + flowing, from.Last} {
				s.flagged(&list, from, to, v6, "a packet from a port of the pair", port, to.First,
					func(bool) bool { return s.listed(v6) })
			}
			for _, port := range strangePorts(from) {
				s.flagged(&list, from, to, v6, "a packet from a port that is none of the pair's", port, to.First, never)
			}
		}
	})
	return s.held(ctx, OwnPorts, "packets of a pair pass between the source's own ports and the service's, and between "+
		"no others", list)
}

// strangePorts are some that are none of a container's.
func strangePorts(e *end) []uint16 { return []uint16{1, ssh, e.First - 1, e.Last + 1, nobodys, 65_535} }

// flagged adds datagrams and segments with several flags between two ports.
func (s *stand) flagged(list *[]probe, from, to *end, v6 bool, what string, a, b uint16, want func(syn bool) bool) {
	send := s.between(list, from, to, v6)
	at, dest := netip.AddrPortFrom(from.Own(v6), a), netip.AddrPortFrom(to.Own(v6), b)
	text := func(protocol, flags byte) string {
		return fmt.Sprintf("%s (protocol %d, flags %#x) from port %d to port %d", what, protocol, flags, a, b)
	}
	send(text(packet.UDP, 0), want(false), func(key string) []byte { return udp(at, dest, key) })
	for _, flags := range []byte{
		packet.SYN, packet.ACK, packet.SYN | packet.ACK, packet.RST | packet.ACK, packet.FIN | packet.PSH | packet.ACK,
	} {
		if s.Stateful && flags != packet.SYN && want(false) {
			continue // what opens nothing and is of no connection: some take it up, some do not
		}
		send(text(packet.TCP, flags), want(flags == packet.SYN), func(key string) []byte { return tcp(at, dest, flags, key) })
	}
}

// links sends those messages of ICMP that a network needs on one link, or nobody needs: neighbour discovery that comes
// from elsewhere, routers that are none, and what only looks like that.
func (s *stand) links(ctx context.Context) (Held, error) {
	var list []probe
	s.each(func(from, to *end, v6 bool) {
		a, b := from.Own(v6), to.Own(v6)
		add := s.between(&list, from, to, v6)
		send := func(what string, protocol, kind, hops byte) {
			add(what, false, func(key string) []byte {
				body := []byte(key)
				switch {
				case protocol != packet.ICMPOf(b): // it is read as what it is not
				case quotes(v6, kind):
					body = append(b.AsSlice(), s.forge(key)...)
				default:
					body = append(b.AsSlice(), key...)
				}
				return packet.IP(a, b, protocol, hops, packet.Message(a, b, kind, 0, 0, body))
			})
		}
		if !v6 {
			send("a redirect", packet.ICMP, 5, packet.Hops)
			send("a router's advertisement", packet.ICMP, 9, packet.Hops)
			send("a question for the time", packet.ICMP, 13, packet.Hops)
			send("neighbour discovery over IPv4", packet.ICMPv6, 135, packet.NDHops)
			return
		}
		send("a neighbour's solicitation that was forwarded", packet.ICMPv6, 135, packet.Hops)
		send("a neighbour's advertisement that was forwarded", packet.ICMPv6, 136, packet.Hops)
		send("a router's solicitation", packet.ICMPv6, 133, packet.NDHops)
		send("a router's advertisement", packet.ICMPv6, 134, packet.NDHops)
		send("a redirect", packet.ICMPv6, 137, packet.NDHops)
		send("an echo of ICMP over IPv6", packet.ICMP, echoRequest, packet.Hops)
		if s.Inside {
			return // nobody forwards
		}
		// on one link they are needed; forwarded beyond it they are a way to tell somebody something
		for _, kind := range []byte{135, 136} {
			send(fmt.Sprintf("neighbour discovery (%d) that is forwarded", kind), packet.ICMPv6, kind, packet.NDHops)
			list[len(list)-1].forwarded = true
		}
	})
	return s.held(ctx, Messages, "messages of ICMP that are for one link alone, or for nobody, do not pass between "+
		"containers", list)
}

// quotesOfFlows sends errors of ICMP that say that a packet was too big: about a flow that there is none of, and about
// flows that go on, from the sink of the flow to its source and to others.
func (s *stand) quotesOfFlows(ctx context.Context) (Held, error) {
	if s.translates() { // what has no ports is for the host itself
		return newHeld(Quotes, quotesText, "").done(), nil
	}
	for _, v6 := range families() {
		if !s.listed(v6) {
			continue
		}
		for _, p := range s.Pairs {
			flow, err := s.flow(s.end(p.Source), s.end(p.Sink), v6)
			if err != nil {
				return Held{}, err
			}
			_, _ = flow.send(nil) // whether it passes is another claim
			flow.close()
		}
	}
	var list []probe
	s.each(func(from, to *end, v6 bool) {
		add := s.between(&list, from, to, v6)
		about := func(what string, want bool, a, b netip.AddrPort) {
			kind := uint16(3<<8 | 4)
			if v6 {
				kind = 2 << 8
			}
			add("an error about "+what, want, func(key string) []byte {
				return s.quoting(from.Own(v6), to.Own(v6), a, b, key, kind)
			})
		}
		about("a flow that is none", false, netip.AddrPortFrom(to.Own(v6), nobodys),
			netip.AddrPortFrom(from.Own(v6), nobodys))
		for _, p := range s.Pairs {
			source, sink := s.end(p.Source), s.end(p.Sink)
			if from != sink {
				continue
			}
			a, b := netip.AddrPortFrom(source.Own(v6), source.First+flowing), netip.AddrPortFrom(sink.Own(v6), sink.First)
			if to == source {
				about("a flow that is allowed", s.listed(v6) && s.ByConnection, a, b)
			} else {
				about("a flow of somebody else", false, a, b)
			}
		}
	})
	return s.held(ctx, Quotes, quotesText, list)
}

const quotesText = "an error of ICMP passes only from the sink of the flow that it quotes to the flow's source, if " +
	"the filter says that it does"

// extensions puts headers between that of IPv6 and that with the ports of what is allowed: a filter says whether it
// looks behind them. What is refused is refused behind them too: see [threat.Options].
//
// [threat.Options]: https://pkg.go.dev/github.com/nettoll/nettoll/proof/threat
func (s *stand) extensions(ctx context.Context) (Held, error) {
	var list []probe
	s.others(func(from, to *end) {
		const v6 = true
		if !s.may(from, to, v6) {
			return
		}
		a, b := netip.AddrPortFrom(from.Own(v6), from.First+replied), netip.AddrPortFrom(to.Own(v6), to.First)
		add := s.between(&list, from, to, v6)
		for _, c := range []struct {
			what    string
			headers []byte
		}{
			{"hop-by-hop options", []byte{packet.HopByHop}},
			{"options for the destination", []byte{packet.Destinations}},
			{"options for both", []byte{packet.HopByHop, packet.Destinations}},
		} {
			add("an allowed datagram behind "+c.what, s.Followed, func(key string) []byte {
				next, payload := packet.Behind(c.headers, packet.UDP, packet.Datagram(a, b, key))
				return packet.IP(a.Addr(), b.Addr(), next, packet.Hops, payload)
			})
		}
	})
	return s.held(ctx, Extensions, "an allowed datagram behind options of IPv6 passes if the filter says that it looks "+
		"behind them", list)
}

// forge is a key as errors of ICMP carry it: those that are honest may quote the other.
func (s *stand) forge(key string) string { return string(s.forged[:]) + key[len(s.forged):] }
