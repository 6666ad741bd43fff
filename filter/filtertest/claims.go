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
func (s *stand) described(c *trial, families []string) proof.Lab {
	l := proof.Lab{
		Families: families, MTU: s.Lab.MTU, Filtered: true, Stateful: c.params.On(filter.Stateful),
		Inside: c.where.Point == network.InContainer,
	}
	for _, h := range s.Lab.Hosts {
		l.Hosts = append(l.Hosts, proof.Host{Name: h.Name()})
	}
	for _, e := range s.ends() {
		h, ports := &l.Hosts[e.spot.Host], e.ports
		if slices.ContainsFunc(s.pairs, func(p network.Pair) bool { return p.Source == e.spot }) {
			ports = e.sending
		}
		h.Containers = append(h.Containers, proof.Container{
			Name: e.name, Namespace: e.Namespace, Link: e.Link, Inner: e.Inner, IPv4: e.IPv4, IPv6: e.IPv6,
			PublicIPv4: e.Public("ipv4"), PublicIPv6: e.Public("ipv6"), First: ports.First, Last: ports.Last,
		})
	}
	for _, p := range s.pairs {
		l.Pairs = append(l.Pairs, proof.Pair{Source: s.end(p.Source).name, Sink: s.end(p.Sink).name})
	}
	return l
}

// claims wants the stand to hold what every lab with a filter claims, as each run proves it, and to withstand attacks.
// Each attack also sends packets that must pass: else it would show nothing.
func (c *trial) claims(t testing.TB, s *stand, families []string) error {
	lab := s.described(c, families)
	players := &proof.Here{In: func(e proof.End, f func() error) error {
		_, err := inside(s.named(e.Container), func() (struct{}, error) { return struct{}{}, f() })
		return err
	}}
	var errs []error
	for _, p := range proof.Play(t.Context(), lab.Claims(nil), players) {
		if !p.OK {
			errs = append(errs, fmt.Errorf("it does not hold that %s: %s", p.Claim, p.Detail))
		}
	}
	outcomes, err := attack.Run(t.Context(), attack.Target{Lab: lab, Open: s.open}, []attack.Attack{
		threat.Ports, threat.PortZero, threat.Options, threat.Wrapped, threat.Fragments,
	})
	if err != nil {
		errs = append(errs, err)
	}
	for _, o := range outcomes {
		if o.Arrived > 0 {
			errs = append(errs, fmt.Errorf("attack %q, %s: %d of %d pass, and must not:\n%s", o.Attack, o.Family, o.Arrived,
				o.Sent, strings.Join(o.Holes, "\n")))
		}
		for _, m := range o.Missing {
			errs = append(errs, fmt.Errorf("attack %q, %s: %s does not pass", o.Attack, o.Family, m))
		}
	}
	return errors.Join(errs...)
}

// named is the end of a container.
func (s *stand) named(name string) end {
	ends := s.ends()
	return ends[slices.IndexFunc(ends, func(e end) bool { return e.name == name })]
}

// open opens a namespace of a host, which is the caller's to close.
func (s *stand) open(h int, namespace string) (f *os.File, err error) {
	err = s.Hosts[h].Kernel.Do(namespace, func() (err error) {
		f, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return f, err
}
