package control

import (
	"fmt"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/attack"
)

// Target returns the lab as one that can be attacked. The error is [attack.ErrShared] if nothing in it can be.
func (s *Standing) Target() (attack.Lab, error) {
	f, params := filter.Of(s.Lab.Stack)
	at, _ := filter.At(s.Lab.Stack)
	l := attack.Lab{Filtered: f != nil, Stateful: f != nil && params.On(filter.Stateful), Inside: f != nil &&
		at == network.InContainer}
	for _, h := range s.Hosts[:s.Lab.Hosts] { // what follows is the underlay
		one := attack.Host{Name: h.Name(), Namespace: h.Namespace}
		for _, c := range h.Containers {
			if c.Namespace == "" {
				return l, attack.ErrShared
			}
			e := c.Endpoint
			one.Containers = append(one.Containers, attack.Container{
				Name: c.Name, Namespace: c.Namespace, Link: e.Link, Inner: e.Inner, IPv4: e.IPv4, IPv6: e.IPv6,
				PublicIPv4: e.Public("ipv4"), PublicIPv6: e.Public("ipv6"),
				First: c.Ports.First, Last: c.Ports.Last,
			})
		}
		l.Hosts = append(l.Hosts, one)
	}
	for pair := range s.Lab.Pairs {
		l.Pairs = append(l.Pairs, attack.Pair{
			Source: fmt.Sprintf("%s%d", sourceName, pair), Sink: fmt.Sprintf("%s%d", sinkName, pair),
		})
	}
	return l, nil
}
