package filtertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
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
	open := s.described(c, families, false)
	err = errors.Join(s.Apply(t), s.Verify(t))
	if err == nil {
		err = s.joined(t, open.Lab)
	}
	if err != nil {
		report(t, errors.Join(err, s.Undo()))
		return ""
	}
	madeUp := func(t *testing.T, lab attack.Target) {
		_, err := c.held(t, s, lab, attack.MadeUp)
		report(t, err)
	}
	t.Run("open", func(t *testing.T) { madeUp(t, open) })
	if err := errors.Join(s.filter(t), s.Verify(t)); err != nil {
		report(t, errors.Join(err, s.Undo()))
		return ""
	}
	t.Run("made up", func(t *testing.T) { madeUp(t, s.described(c, families, true)) })
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
func (s *stand) joined(t testing.TB, lab proof.Lab) error {
	for deadline := time.Now().Add(agreed); ; {
		err := s.played(t, lab)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
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
		across := (*filter.ProofPacket)(nil)
		for _, step := range s.steps {
			if step.Listed().Across != nil {
				across = step.Listed().Across
			}
		}
		if across == nil {
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
		_, err := filter.Try(t.Context(), *across, filter.Ends{
			Source: func(f func() error) error { return s.Hosts[source].Kernel.Do(across.SourceNS, f) },
			Sink:   func(f func() error) error { return s.Hosts[sink].Kernel.Do(across.SinkNS, f) },
		}, func(allow bool) (host.RuleUpdate, error) { return host.RuleUpdate{}, update(this, allow) })
		if err = errors.Join(err, update(others, false)); err != nil {
			return fmt.Errorf("host %d, while the other one allows it: %w", h+1, err)
		}
	}
	return nil
}
