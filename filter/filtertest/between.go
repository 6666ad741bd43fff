package filtertest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof/packet"
)

// Between runs what of the suite is about packets from other hosts on a filter in a lab of two hosts, with the carriers
// of the network's [On] between them. All checks share one lab, and each is a subtest:
//
//   - open: before there is a filter, packets that root of one host makes up reach the containers of the other one.
//     Else the next check would show nothing.
//   - made up: with the filter, only those reach them that the list allows, although nobody filters what a host sends
//     itself: the host that packets arrive at decides them.
//   - alone: each of the two hosts refuses a flow that the other one allows.
//   - traffic: what may pass does, at its largest, and all else is refused and counted.
//   - claims: the claims of a lab hold, and it withstands attacks. It takes longest, and is left out unless attacked is
//     true.
//   - undo: Verify still agrees, and then all is gone, without a trace.
//
// It returns why the filter refuses the lab, "" if it does not.
func Between(t *testing.T, f filter.Filter, given map[string]string, on On, attacked bool) (refused string) {
	on.Hosts = 2
	d := f.Describe()
	params, err := d.Params.Resolve("filter "+d.Name, given)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCase(Subject{Filter: f}, on, params)
	if err != nil {
		t.Fatal(err)
	}
	if c.refused != "" {
		return c.refused
	}
	families := []string{"ipv4", "ipv6"}
	s, err := c.build(t, families)
	if err != nil {
		report(t, err)
		return ""
	}
	before, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(s.Apply(t), s.Verify(t))
	if err == nil {
		err = s.joined(t, families)
	}
	if err != nil {
		report(t, errors.Join(err, s.Undo()))
		return ""
	}
	t.Run("open", func(t *testing.T) { report(t, c.madeUp(s, families, false)) })
	if err := errors.Join(s.filter(t), s.Verify(t)); err != nil {
		report(t, errors.Join(err, s.Undo()))
		return ""
	}
	t.Run("made up", func(t *testing.T) { report(t, c.madeUp(s, families, true)) })
	t.Run("alone", func(t *testing.T) { report(t, s.alone(t)) })
	t.Run("traffic", func(t *testing.T) { report(t, c.traffic(t, s, families)) })
	if attacked {
		t.Run("claims", func(t *testing.T) { report(t, c.claims(t, s, families)) })
	}
	t.Run("undo", func(t *testing.T) { report(t, s.gone(t, before)) })
	return ""
}

// agreed is how long hosts may take to agree on keys: WireGuard asks again after 5 s when the first question was lost
// (wireguard.com/papers/wireguard.pdf, section 6.1).
const agreed = 15 * time.Second

// joined waits until packets of each family pass between the hosts.
func (s *stand) joined(t testing.TB, families []string) error {
	deadline := time.Now().Add(agreed)
	for _, p := range s.pairs {
		for _, family := range families {
			for {
				err := datagrams(t, s.end(p.Source), s.end(p.Sink), family, small)
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("without a filter: %w", err)
				}
			}
		}
	}
	return nil
}

// gone wants everything as it was before.
func (s *stand) gone(t testing.TB, before map[string]string) error {
	if err := errors.Join(s.Verify(t), s.Undo()); err != nil {
		return err
	}
	after, err := s.Snapshot()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(before, after); diff != "" {
		return fmt.Errorf("undone, it is not as it was (-before +after):\n%s", diff)
	}
	return nil
}

// alone wants each host to refuse a flow that the other one allows, and to let it pass once it allows it itself.
func (s *stand) alone(t testing.TB) error {
	source, sink := s.pairs[0].Source.Host, s.pairs[0].Sink.Host
	for _, h := range []int{source, sink} {
		proof := (*filter.ProofPacket)(nil)
		for _, step := range s.steps {
			if step.Listed().Across != nil {
				proof = step.Listed().Across
			}
		}
		if proof == nil {
			return errors.New("no step has a flow that crosses the hosts")
		}
		update := func(hosts func(int) bool, allow bool) error {
			for i, step := range s.steps {
				if at := slices.IndexFunc(s.Hosts, func(m *networktest.Machine) bool { return m.Kernel == s.at[i] }); hosts(at) {
					if _, err := filter.UpdateRule(s.at[i], step, allow); err != nil {
						return err
					}
				}
			}
			return nil
		}
		this := func(i int) bool { return i == h }
		others := func(i int) bool { return i != h }
		if err := update(others, true); err != nil {
			return err
		}
		_, err := filter.Try(t.Context(), *proof, filter.Ends{
			Source: func(f func() error) error { return s.Hosts[source].Kernel.Do(proof.SourceNS, f) },
			Sink:   func(f func() error) error { return s.Hosts[sink].Kernel.Do(proof.SinkNS, f) },
		}, func(allow bool) (host.RuleUpdate, error) { return host.RuleUpdate{}, update(this, allow) })
		if err = errors.Join(err, update(others, false)); err != nil {
			return fmt.Errorf("host %d, while the other one allows it: %w", h+1, err)
		}
	}
	return nil
}

// madeUp has root of each host send packets in the name of its containers, and in its own, to the containers of the
// other one. Without the filter, all of them arrive.
func (c *trial) madeUp(s *stand, families []string, filtered bool) error {
	heard := &ears{came: map[string]int{}}
	defer heard.close()
	m := &smuggler{c: c, s: s, heard: heard, sockets: map[string]*os.File{}}
	for _, e := range s.ends() {
		if _, err := m.open(e); err != nil {
			return err
		}
	}
	for _, p := range s.pairs {
		for _, family := range families {
			m.inNames(s.end(p.Source), s.end(p.Sink), family)
		}
	}
	missed := func(a attempt) bool { return (a.want || !filtered) && !a.maybe && heard.count(a.key) == 0 }
	for round := range rounds {
		for _, a := range m.list {
			if round > 0 && !missed(a) {
				continue
			}
			if err := a.try(); err != nil {
				return fmt.Errorf("%s: %w", a.text, err)
			}
		}
		time.Sleep(settle / 3)
		if round > 0 && !slices.ContainsFunc(m.list, missed) {
			break
		}
	}
	var errs []error
	for _, a := range m.list {
		switch came := heard.count(a.key) > 0; {
		case missed(a):
			errs = append(errs, fmt.Errorf("%s does not arrive", a.text))
		case filtered && came && !a.want:
			errs = append(errs, fmt.Errorf("%s arrives, and must not", a.text))
		}
	}
	return errors.Join(errs...)
}

// own is which of its ports a source sends from here, and from nowhere else in the suite: where connections are known,
// this one stays.
const own = 6

// small is the payload of a small datagram in bytes.
const small = 28

// inNames adds packets from the host of a source to its sink, and back.
func (m *smuggler) inNames(source, sink end, family string) {
	from, to := source.Public(family), sink.Public(family)
	names := []netip.Addr{from, to, m.s.Lab.Top().Reach[source.spot.Host][source.spot.Host].Pick(from)}
	for _, e := range m.s.ends() {
		names = append(names, e.Public(family))
	}
	send := func(what string, want bool, at end, a, b netip.AddrPort) {
		m.number++
		key := fmt.Sprintf("<<host%d %d>>", at.spot.Host+1, m.number)
		m.list = append(m.list, attempt{
			text: fmt.Sprintf("%s, of host %d from %s to %s", what, at.spot.Host+1, a, b), want: want, key: key,
			// an encryption takes from a host only what is of its addresses there
			maybe: !slices.Contains(names, a.Addr()),
			try: func() error {
				return at.kernel.Do("", func() error {
					return sock.SendWhole(b.Addr(), packet.IP(a.Addr(), b.Addr(), packet.UDP, packet.Hops, packet.Datagram(a, b, key)))
				})
			},
		})
	}
	allowed := netip.AddrPortFrom(from, source.sending.First+own)
	send("an allowed datagram", true, source, allowed, netip.AddrPortFrom(to, sink.ports.First))
	send("a datagram to a port that is not allowed", false, source, allowed, netip.AddrPortFrom(to, sink.ports.Last))
	if m.c.translated {
		return // no other port of the host is a container's, and its address is that of all of them
	}
	send("a datagram to a port of nobody", false, source, allowed, netip.AddrPortFrom(to, service))
	send("a datagram from a port that is not allowed", false, source, netip.AddrPortFrom(from, nobodys),
		netip.AddrPortFrom(to, sink.ports.First))
	send("what looks like an answer", false, sink, netip.AddrPortFrom(to, sink.ports.First),
		netip.AddrPortFrom(from, service))
	for _, e := range m.s.ends() {
		if e.spot.Host == source.spot.Host && e.spot != source.spot {
			send("a datagram in the name of another container", false, source,
				netip.AddrPortFrom(e.Public(family), source.sending.First+own), netip.AddrPortFrom(to, sink.ports.First))
		}
	}
	for _, span := range spansOf(m.s.Lab) {
		at := span.Reach[source.spot.Host][source.spot.Host]
		send("a datagram in its own name, on "+span.Name, false, source,
			netip.AddrPortFrom(at.Pick(from), source.sending.First+own), netip.AddrPortFrom(to, sink.ports.First))
	}
}

// spansOf returns what joins the hosts of a lab.
func spansOf(lab network.Lab) []network.Span {
	if len(lab.Spans) == 0 {
		return []network.Span{lab.Top()}
	}
	return lab.Spans
}
