package control

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/workload"
)

// nameOf is what the container of a pair is called: "src0", "snk0".
func nameOf(side workload.Side, pair int) string {
	if side == workload.Source {
		return fmt.Sprintf("%s%d", sourceName, pair)
	}
	return fmt.Sprintf("%s%d", sinkName, pair)
}

// talking are the families in which pairs may talk: with a filter those of the list, which has what cells use, unless
// it names containers. Otherwise nothing keeps containers from using the other family, whether or not it is measured,
// if they have addresses of it.
func (l *lab) talking() []string {
	if f, _ := filter.Of(l.Stack); f != nil {
		if n, ok := f.(filter.Naming); !ok || !n.Names() {
			return l.families
		}
	}
	return slices.DeleteFunc(experiment.Families(), func(family string) bool {
		return slices.ContainsFunc(l.at, func(at pairAddresses) bool {
			return !at.source.Bind(family).IsValid() || !at.sink.Bind(family).IsValid()
		})
	})
}

// described is the lab as its claims and attacks know it.
func (l *lab) described(mtu int) proof.Lab {
	f, params := filter.Of(l.Stack)
	at, _ := filter.At(l.Stack)
	d := proof.Lab{
		Families: l.talking(), MTU: mtu, Filtered: f != nil, Stateful: f != nil && params.On(filter.Stateful),
		Published: published(l.Lab), Inside: f != nil && at == network.InContainer, Uncounted: l.uncounted,
	}
	if under := l.spec.Net.Underlay; len(l.spec.Net.Hosts) > 1 {
		d.Patience = proof.Patience{Trip: 2 * (under.Delay + under.Jitter), Lossy: under.Loss > 0}
		for _, name := range l.spec.Net.RouterNamespaces() {
			d.Routers = append(d.Routers, proof.Router{Name: cmp.Or(name, "router"), Namespace: name})
		}
	}
	for i := range l.Hosts {
		d.Hosts = append(d.Hosts, proof.Host{Name: network.Host{Index: i + 1}.Name()})
	}
	put := func(on int, name string, e network.Endpoint, ports network.Ports) {
		h := &d.Hosts[on-1]
		h.Containers = append(h.Containers, proof.Container{
			Name: name, Namespace: e.Namespace, Link: e.Link, Inner: e.Inner, IPv4: e.IPv4, IPv6: e.IPv6,
			PublicIPv4: e.Public("ipv4"), PublicIPv6: e.Public("ipv6"), First: ports.First, Last: ports.Last,
			Capabilities: l.capabilities(name),
		})
	}
	for pair, at := range l.at {
		p := proof.Pair{Source: nameOf(workload.Source, pair), Sink: nameOf(workload.Sink, pair)}
		put(at.sourceHost, p.Source, at.source, at.sending)
		put(at.sinkHost, p.Sink, at.sink, at.sinkPorts)
		d.Pairs = append(d.Pairs, p)
	}
	return d
}

// capabilities are those that root of a container has in its network namespace, nil for one without processes of its
// own. They count if the network namespace belongs to the user namespace of the container (user_namespaces(7)).
func (l *lab) capabilities(container string) *uint64 {
	i := slices.IndexFunc(l.workers, func(w *labWorker) bool { return w.container == container && w.rights != nil })
	if i < 0 {
		return nil
	}
	set := l.workers[i].rights.Effective
	if !l.workers[i].rights.Network {
		set = 0
	}
	return &set
}

// Rights says what root may do in the containers of the lab, "" if those have no processes of their own.
func (s *LiveLab) Rights() string {
	l := s.lab
	return measure.LabRights([]measure.LabRecord{{Lab: l.ID, Rights: l.rights()}})[l.ID]
}

// Target returns the lab as one that can be attacked. The error is [attack.ErrShared] if nothing in it can be.
func (s *LiveLab) Target() (attack.Target, error) {
	l := attack.Target{
		Lab:    s.lab.described(s.MTU),
		Claims: s.Lab.Stack.Claims(s.Lab.Hosts),
		Open:   func(host int, namespace string) (*os.File, error) { return s.Hosts[host].Namespace(namespace) },
	}
	for _, h := range l.Hosts {
		for _, c := range h.Containers {
			if c.Namespace == "" {
				return l, attack.ErrShared
			}
		}
	}
	return l, nil
}
