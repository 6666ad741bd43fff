package filtertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
)

// lasting wants the last audit of a host to name a flow that began while a rule allowed it and lasts without that, and
// to name none of a pair.
func (c *trial) lasting(t testing.TB) (err error) {
	s, err := c.raise(t, []string{"ipv4", "ipv6"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Undo()) }()
	k, step := s.Hosts[0].Kernel, s.steps[0]
	tracker, ok := host.Step(step).(host.Tracker)
	if !ok || !tracker.Tracks() {
		return fmt.Errorf("step %s tracks connections, and is not a host.Tracker that says so", step)
	}
	if err := k.Watch(); err != nil {
		return err
	}
	audit := func() ([]string, error) {
		a, err := s.Hosts[0].Stack.Audit(k, true)
		if slices.Contains(testnet.Lacking(), "tcx") {
			a.Doubts = slices.DeleteFunc(a.Doubts, func(doubt string) bool { return strings.Contains(doubt, "programs at tcx") })
		}
		return append(a.Changes, a.Doubts...), err
	}
	src0, snk0, snk1 := s.member("src0"), s.member("snk0"), s.member("snk1")
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := converse(k, family, src0, snk0, snk0.first); err != nil {
			return err
		}
	}
	if got, err := audit(); err != nil {
		return err
	} else if len(got) > 0 {
		return fmt.Errorf("a flow of a pair: an audit says %q", got)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		rule := filter.Rule{
			Source: src0.Bind(family), Sink: snk1.Bind(family), First: snk1.first, Last: snk1.first, SourceFirst: src0.first,
			SourceLast: src0.first,
		}
		if err := step.UpdateRule(k, rule, true); err != nil {
			return err
		}
		began := converse(k, family, src0, snk1, snk1.first)
		revoke := c.Revoke
		if revoke == nil {
			revoke = func(k *host.Kernel, r filter.Rule) error { return step.UpdateRule(k, r, false) }
		}
		if err := errors.Join(began, revoke(k, rule)); err != nil {
			return err
		}
	}
	got, err := audit()
	for _, family := range []string{"ipv4", "ipv6"} {
		want := fmt.Sprintf("connection udp %s port %d → %s port %d: ", src0.Bind(family), src0.first, snk1.Bind(family),
			snk1.first)
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			err = errors.Join(err, fmt.Errorf("a flow lasts without its rule, and an audit says %q, want %q", got, want))
		}
	}
	return err
}

// A member is a container with its first port.
type member struct {
	network.Endpoint
	first uint16
}

// member returns a container of the first host by its name.
func (s *stand) member(name string) member {
	list := s.Lab.Hosts[0].Containers
	i := slices.IndexFunc(list, func(c network.Container) bool { return c.Name == name })
	return member{s.Ends[0][i], list[i].Ports.First}
}

// converse sends a datagram from the first port of a container to another one, which answers.
func converse(k *host.Kernel, family string, source, sink member, port uint16) error {
	open := func(m member, port uint16) (c *net.UDPConn, err error) {
		err = k.Do(m.Namespace, func() error {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(m.Bind(family), port)))
			return err
		})
		return c, err
	}
	from, err := open(source, source.first)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := open(sink, port)
	if err != nil {
		return err
	}
	defer to.Close()
	buf := make([]byte, 1)
	// a rule takes effect when it does: datagrams are sent until one is answered
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		soon := time.Now().Add(50 * time.Millisecond)
		err = errors.Join(from.SetDeadline(soon), to.SetDeadline(soon))
		if err != nil {
			return err
		}
		_, err = from.WriteToUDPAddrPort(buf, netip.AddrPortFrom(sink.Public(family), port))
		if err == nil {
			var peer netip.AddrPort
			if _, peer, err = to.ReadFromUDPAddrPort(buf); err == nil {
				_, err = to.WriteToUDPAddrPort(buf, peer)
			}
		}
		if err == nil {
			if _, _, err = from.ReadFromUDPAddrPort(buf); err == nil {
				return nil
			}
		}
	}
	return fmt.Errorf("no answer from %s: %w", sink.Bind(family), err)
}
