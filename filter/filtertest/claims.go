package filtertest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
)

// described is the stand as claims and attacks know it. Families are those that the list has.
func (s *stand) described(c *trial, families []string, filtered bool) attack.Target {
	l := proof.Lab{
		Families: families, MTU: s.Lab.MTU, Filtered: filtered, Stateful: filtered && c.params.On(filter.Stateful),
		Inside: filtered && c.where.Point == network.InContainer,
	}
	for h, of := range s.Lab.Hosts {
		host := proof.Host{Name: of.Name()}
		for i, container := range of.Containers {
			spot, e, ports := network.Spot{Host: h, Container: i}, s.Ends[h][i], container.Ports
			if slices.ContainsFunc(s.pairs, func(p network.Pair) bool { return p.Source == spot }) {
				ports = container.Sending()
			}
			host.Containers = append(host.Containers, proof.Container{
				Name: container.Name, Namespace: e.Namespace, Link: e.Link, Inner: e.Inner, IPv4: e.IPv4, IPv6: e.IPv6,
				PublicIPv4: e.Public("ipv4"), PublicIPv6: e.Public("ipv6"), First: ports.First, Last: ports.Last,
			})
		}
		l.Hosts = append(l.Hosts, host)
	}
	name := func(at network.Spot) string { return l.Hosts[at.Host].Containers[at.Container].Name }
	for _, p := range s.pairs {
		l.Pairs = append(l.Pairs, proof.Pair{Source: name(p.Source), Sink: name(p.Sink)})
	}
	return attack.Target{
		Lab: l, Open: func(h int, namespace string) (*os.File, error) { return s.Hosts[h].Kernel.Open(namespace) },
	}
}

// rules are what the filter says of itself, and where the hosts are on what joins them.
func (c *trial) rules(s *stand) attack.Rules {
	r := attack.Rules{
		ByAddress: c.fragments == filter.ByAddress, ByConnection: c.errors == filter.ByConnection,
		Followed: c.extensions == filter.Followed, Bound: c.params.On(filter.Antispoof), Floods: c.on.Floods,
	}
	if len(s.Lab.Hosts) < 2 {
		return r
	}
	spans := s.Lab.Spans
	if len(spans) == 0 {
		spans = []network.Span{s.Lab.Top()}
	}
	for h := range s.Lab.Hosts {
		var places []attack.Place
		for _, span := range spans {
			own := span.Reach[h][h]
			places = append(places, attack.Place{Name: span.Name, IPv4: own.IPv4, IPv6: own.IPv6})
		}
		r.Places = append(r.Places, places)
	}
	return r
}

// played wants what every lab claims to hold.
func (s *stand) played(t testing.TB, lab proof.Lab) error {
	players := &proof.Here{In: func(e proof.End, f func() error) error {
		h := slices.IndexFunc(lab.Hosts, func(h proof.Host) bool {
			return slices.ContainsFunc(h.Containers, func(c proof.Container) bool { return c.Name == e.Container })
		})
		return s.Hosts[h].Kernel.Do(e.Namespace, f)
	}}
	var errs []error
	for _, p := range proof.Play(t.Context(), lab.Claims(nil), players) {
		t.Logf("%s: %s: %v tried, %v as expected (%s)", p.Name, p.Claim, p.Tried, p.Seen, p.Expected)
		if !p.OK {
			errs = append(errs, fmt.Errorf("it does not hold that %s: %s", p.Claim, p.Detail))
		}
	}
	return errors.Join(errs...)
}

// held wants claims about the list to hold, and returns what came of them.
func (c *trial) held(t testing.TB, s *stand, lab attack.Target, claims ...string) ([]attack.Held, error) {
	list, err := attack.Hold(t.Context(), lab, c.rules(s), claims...)
	errs := []error{err}
	for _, h := range list {
		t.Logf("%s: %s: %v tried, %v as expected (%s)", h.Name, h.Claim, h.Tried, h.Seen, h.Expected)
		errs = append(errs, h.Err())
	}
	return list, errors.Join(errs...)
}

// attacks are those that are made on each network. The others are made on a choice of labs by package attack: they take
// as long again. The filter has to claim to withstand them.
func (c *trial) attacks() ([]attack.Attack, error) {
	list := []attack.Attack{threat.Ports, threat.PortZero, threat.Options, threat.Wrapped, threat.Fragments}
	for _, a := range list {
		if !c.claimed(a) {
			return nil, fmt.Errorf("it does not claim to withstand attack %q, as every filter does", a)
		}
	}
	return list, nil
}

// claimed says whether the filter claims to withstand an attack.
func (c *trial) claimed(a attack.Attack) bool {
	d := c.Filter.Describe()
	claims := d.Claims
	if claims == nil {
		claims = filter.Claims(d.Errors)
	}
	return claims(c.where.Point, c.params).Claimed(a)
}

// astray wants nothing that the list allows to arrive in a frame for somebody else if the filter claims that, and all
// of it to be counted. Otherwise it arrives where a switch passes it on, which shows that it is tried.
func (c *trial) astray(t testing.TB, s *stand, lab attack.Target) error {
	before, err := s.counters()
	if err != nil {
		return err
	}
	outcomes, err := attack.Run(t.Context(), lab, []attack.Attack{threat.Misdirected})
	if err != nil {
		return err
	}
	after, err := s.counters()
	if err != nil {
		return err
	}
	network := c.on.Network.Describe().Claims
	separate := network != nil && network(c.on.Hosts, c.network).Claimed(threat.Misdirected)
	claimed, sent := c.claimed(threat.Misdirected), 0
	var errs []error
	for _, o := range outcomes {
		sent += o.Sent
		t.Logf("attack %q, %s: %d of %d pass %s", o.Attack, o.Family, o.Arrived, o.Sent, o.NotTried)
		switch {
		case o.Failed != "" || o.Sent == 0 || len(o.Missing) > 0:
			errs = append(errs, fmt.Errorf("attack %q, %s: %d sent, allowed and missing: %q %s", o.Attack, o.Family, o.Sent,
				o.Missing, o.Failed))
		case o.Arrived > 0 && (claimed || separate):
			errs = append(errs, fmt.Errorf("attack %q, %s: %d of %d pass, and must not:\n%s", o.Attack, o.Family, o.Arrived,
				o.Sent, strings.Join(o.Holes, "\n")))
		case o.Arrived == 0 && !claimed && !separate:
			errs = append(errs, fmt.Errorf("attack %q, %s: none of %d pass, although nobody claims that", o.Attack, o.Family,
				o.Sent))
		}
	}
	if claimed && !separate && after.Refused < before.Refused+uint64(sent) {
		errs = append(errs, fmt.Errorf("it has counted %d refused packets, and %d before: want %d more at least",
			after.Refused, before.Refused, sent))
	}
	return errors.Join(errs...)
}

// claims wants the stand to hold what every lab with a filter claims, as each run proves it, and to withstand attacks.
// Each attack also sends packets that must pass: else it would show nothing.
func (c *trial) claims(t testing.TB, s *stand, families []string) error {
	target := s.described(c, families, true)
	errs := []error{s.played(t, target.Lab)}
	attacks, err := c.attacks()
	if err != nil {
		return err
	}
	outcomes, err := attack.Run(t.Context(), target, attacks)
	if err != nil {
		errs = append(errs, err)
	}
	for _, o := range outcomes {
		t.Logf("attack %q, %s: %d of %d pass %s", o.Attack, o.Family, o.Arrived, o.Sent, o.NotTried)
		if o.Arrived > 0 {
			errs = append(errs, fmt.Errorf("attack %q, %s: %d of %d pass, and must not:\n%s", o.Attack, o.Family, o.Arrived,
				o.Sent, strings.Join(o.Holes, "\n")))
		}
		if o.Failed != "" {
			errs = append(errs, errors.New(o.Failed))
		}
		for _, m := range o.Missing {
			errs = append(errs, fmt.Errorf("attack %q, %s: %s does not pass", o.Attack, o.Family, m))
		}
	}
	return errors.Join(errs...)
}
