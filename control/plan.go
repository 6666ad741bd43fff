package control

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/workload"
)

// Names of containers, before their number.
const sourceName, sinkName = "src", "snk"

// placing says which CPUs sources and sinks run on.
type placing struct {
	sources, sinks []int
}

// place decides it. With one CPU there is nothing to decide.
func place(affinity string, cpus []int) (placing, error) {
	half := (len(cpus) + 1) / 2
	switch {
	case affinity == "free":
		return placing{}, nil
	case affinity == "same" || affinity == "split" && len(cpus) == 1:
		return placing{cpus[:half], cpus[:half]}, nil
	case affinity == "split":
		return placing{cpus[:half], cpus[half:]}, nil
	}
	return placing{}, &experiment.UnknownError{Kind: "affinity", Name: affinity, Known: experiment.Affinities()}
}

// A LabPlan holds the plans of the hosts of a lab in the first generation.
type LabPlan struct {
	Lab      string      `json:"lab"`
	Hosts    []host.Plan `json:"hosts"` // host 1 first
	Underlay host.Plan   `json:"underlay"`
}

// Plans returns the plans of all labs, on a machine where workers may use these CPUs. It touches nothing.
func Plans(r *experiment.Resolved, cpus []int) ([]LabPlan, error) {
	c := &configurator{resolved: r, cpus: cpus}
	all := make([]int, len(r.Cells))
	for i := range all {
		all[i] = i
	}
	g, err := c.begin(firstGeneration, all)
	if err != nil {
		return nil, err
	}
	if err := c.describeLabs(g); err != nil {
		return nil, err
	}
	plans := make([]LabPlan, len(g.labs))
	for i, l := range g.labs {
		p, err := l.spec.Plan()
		if err != nil {
			return nil, err
		}
		plans[i] = LabPlan{Lab: l.ID, Hosts: p.Plans, Underlay: p.Underlay}
	}
	return plans, nil
}

// sketch says which workers a lab has and where its pairs are; nothing is built yet.
func (c *configurator) sketch(g *generation, spec experiment.Lab) (*lab, error) {
	on, err := place(spec.Affinity, c.cpus)
	if err != nil {
		return nil, err
	}
	// Workers of all labs share the CPUs: those of a lab whose threads have CPUs of their own must not park theirs beside
	// one whose have not.
	alone := !slices.ContainsFunc(c.resolved.Labs, func(l experiment.Lab) bool {
		return !l.Alone(available(l, len(c.cpus)))
	})
	l := &lab{Lab: spec, generation: g, at: make([]pairAddresses, spec.Pairs), keeps: c.keeps}
	for pair := range spec.Pairs {
		l.at[pair] = pairAddresses{sourceHost: spec.SourceHost(pair), sinkHost: spec.SinkHost(pair)}
		l.assign(workload.Source, l.at[pair].sourceHost, pair, on.sources, alone)
		l.assign(workload.Sink, l.at[pair].sinkHost, pair, on.sinks, alone)
	}
	return l, nil
}

// describeLabs says what labs the deployment is asked for, and draws what differs between generations: their seeds and
// the ports of their containers. Nothing is built.
func (c *configurator) describeLabs(g *generation) error {
	for _, l := range g.labs {
		if l == nil {
			continue
		}
		if err := c.describe(l, g.seed.Uint64()); err != nil {
			return err
		}
	}
	return nil
}

func (c *configurator) describe(l *lab, seed uint64) error {
	net := network.NewLab(l.Hosts, cmp.Or(l.MTU, c.resolved.Experiment.Tune.MTU))
	net.Seed, net.Underlay = seed, c.resolved.Experiment.Underlay
	where := func(h int, name string) network.Spot {
		containers := &net.Hosts[h-1].Containers
		*containers = append(*containers, network.Container{Name: name, Index: len(*containers)})
		return network.Spot{Host: h - 1, Container: len(*containers) - 1}
	}
	pairs := make([]network.Pair, l.Pairs)
	for pair := range pairs {
		p := network.Pair{
			Source: where(l.SourceHost(pair), nameOf(workload.Source, pair)),
			Sink:   where(l.SinkHost(pair), nameOf(workload.Sink, pair)), Ports: l.ports,
		}
		pairs[pair] = p
		if p.Source.Host == p.Sink.Host {
			here := net.Hosts[p.Source.Host].Containers
			source, sink := &here[p.Source.Container], &here[p.Sink.Container]
			source.Peer, sink.Peer = sink.Name, source.Name
		}
	}
	if err := shareOut(net.Hosts, c.portsOf(l), l.generation.seed, c.most(l)); err != nil {
		return fmt.Errorf("plan lab %s: %w", l.ID, err)
	}
	l.spec = deploy.Spec{
		ID: l.ID, Mark: fmt.Sprintf("%d/%s", l.generation.number, l.ID), Stack: l.Stack, Net: net, Pairs: pairs,
		Families: l.families,
	}
	return nil
}

// placed notes where the containers of a lab are, and which ports they have.
func (l *lab) placed(site *network.Site) {
	l.mtu = site.Lab.MTU
	for pair, p := range l.spec.Pairs {
		source, sink := site.Lab.Hosts[p.Source.Host].Containers[p.Source.Container],
			site.Lab.Hosts[p.Sink.Host].Containers[p.Sink.Container]
		l.at[pair] = pairAddresses{
			sourceHost: p.Source.Host + 1, sinkHost: p.Sink.Host + 1,
			source: site.Endpoints[p.Source.Host][p.Source.Container], sink: site.Endpoints[p.Sink.Host][p.Sink.Container],
			sourcePorts: source.Ports, sending: source.Sending(), sinkPorts: sink.Ports,
		}
	}
	if l.ways == nil {
		l.ways = newWays(l, site)
	}
}
