package attack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/packet"
)

// collusion sends what no list has to a container whose root reads it at its link: a filter of that container's own
// does not stand before that, and could be taken away.
func (s *stand) collusion(v6 bool) (list []try) {
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			a, b := netip.AddrPortFrom(from.Own(v6), nobodys), netip.AddrPortFrom(target, to.Last)
			list = append(list, try{
				what: fmt.Sprintf("UDP and TCP that opens a connection for %s, which reads at its link", b), from: from, to: to,
				linked: true,
				made: func(key string, _ uint16) [][]byte {
					ways := s.ways(from, to)
					return slices.Concat(from.in(udp(a, b, key), ways...), from.in(tcp(a, b, packet.SYN, key), ways...))
				},
			})
		}
	})
	return list
}

// listening has all containers listen to whatever comes along at their links while each pair talks.
func (s *stand) listening(o *Outcome, v6 bool) error {
	return s.promiscuous(func() error { return s.overhear(o, v6) })
}

// promiscuous calls f while the links of all containers take frames for any address.
func (s *stand) promiscuous(f func() error) (err error) {
	for _, e := range s.ends {
		if err := sock.Promiscuous(e.out, e.at, true); err != nil {
			return fmt.Errorf("link of %s: %w", e.Name, err)
		}
		defer func() { err = errors.Join(err, sock.Promiscuous(e.out, e.at, false)) }()
	}
	return f()
}

// overhear has all pairs talk, both ways, and counts what others hear of it. Everybody has said before where they are.
func (s *stand) overhear(o *Outcome, v6 bool) error {
	for _, e := range s.ends {
		for _, f := range e.announce(e.mac, e.Own(v6)) {
			if err := e.send(f); err != nil {
				return err
			}
		}
	}
	if err := s.wait(settle); err != nil {
		return err
	}
	var list []try
	s.pairs(func(source, sink *end) {
		mac, ok := s.way(source, sink, v6)
		if !ok || !s.listed(v6) {
			return
		}
		a := netip.AddrPortFrom(source.Own(v6), source.First+1)
		b := netip.AddrPortFrom(sink.Public(v6), sink.First)
		list = append(list, try{
			what: fmt.Sprintf("an allowed datagram for %s", sink.Name), from: source, to: sink, linked: true, heard: true,
			counts: func(at int, _ uint16) verdict {
				if at == sink.index {
					return allowed
				}
				return hole
			},
			made: func(key string, _ uint16) [][]byte { return source.in(udp(a, b, key), mac) },
		})
	})
	// A switch in userspace that was flooded is busy for a while.
	for range patient {
		o.Missing = nil
		if err := s.try(o, slices.Clone(list)); err != nil || len(o.Missing) == 0 {
			return err
		}
	}
	return nil
}

// patient is how many times pairs try to talk.
const patient = 10

// flood is from how many MAC addresses frames are sent: more than the 8192 that Open vSwitch remembers by default
// (ovs-vswitchd.conf.db(5), mac-table-size). A Linux bridge remembers any number (ip-link(8), fdb_max_learned).
const flood = 10_000

// unheard waits until nobody hears what others send, as far as that comes: a switch may not have learned yet that an
// address is where it was before the last attack.
func (s *stand) unheard(v6 bool) error {
	for range patient {
		var before Outcome
		if err := s.overhear(&before, v6); err != nil || before.Arrived == 0 {
			return err
		}
	}
	return nil
}

// macFlood sends frames from so many MAC addresses that a switch may forget those of others, and then listens. The
// frames are for the container that sends them, so that a switch learns and passes none of them on.
func (s *stand) macFlood(o *Outcome, v6 bool) error {
	if len(s.Pairs) < 2 {
		o.NotTried = "it takes a container that is of no pair that talks"
		return nil
	}
	from := s.end(s.Pairs[len(s.Pairs)-1].Source)
	if s.flooded { // in the other family: switches remember addresses for 300 s
		return s.promiscuous(func() error { return s.overhear(o, v6) })
	}
	s.flooded = true
	if err := s.promiscuous(func() error { return s.unheard(v6) }); err != nil {
		return err
	}
	for n := range flood {
		if n == flood/2 && s.midway != nil {
			s.midway()
		}
		mac := binary.BigEndian.AppendUint32(net.HardwareAddr{2, s.magic[0]}, uint32(n))
		if err := from.send(packet.Frame(from.mac, mac, packet.TypeOwn, make([]byte, 46))); err != nil {
			return err
		}
	}
	return s.promiscuous(func() error { return s.overhear(o, v6) })
}
