package control

import (
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
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

// LabPlan is what the hosts of a lab are going to be told in the first generation.
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
	g, err := c.begin(0, all)
	if err != nil {
		return nil, err
	}
	plans := make([]LabPlan, len(g.labs))
	for i, l := range g.labs {
		plans[i].Lab = l.ID
		if plans[i].Hosts, plans[i].Underlay, err = c.plan(l, g.seed.Uint64()); err != nil {
			return nil, err
		}
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
	alone := !slices.ContainsFunc(c.resolved.Labs, func(l experiment.Lab) bool { return !l.Alone(len(c.cpus)) })
	l := &lab{Lab: spec, generation: g, at: make([]pairAddresses, spec.Pairs)}
	for pair := range spec.Pairs {
		l.at[pair] = pairAddresses{sourceHost: spec.SourceHost(pair), sinkHost: spec.SinkHost(pair)}
		l.assign(workload.Source, l.at[pair].sourceHost, pair, on.sources, alone)
		l.assign(workload.Sink, l.at[pair].sinkHost, pair, on.sinks, alone)
	}
	return l, nil
}

// plan asks each kind what its part of the stack adds to the plans of the lab's hosts. It is pure but for the seed
// drawn by the caller.
func (c *configurator) plan(l *lab, seed uint64) (plans []host.Plan, underlay host.Plan, err error) {
	spec := network.NewLab(l.Hosts, c.resolved.Experiment.Tune.MTU)
	spec.Seed, spec.Underlay = seed, c.resolved.Experiment.Underlay
	where := func(h int, name string) (int, int) {
		containers := &spec.Hosts[h-1].Containers
		*containers = append(*containers, network.Container{Name: name, Index: len(*containers)})
		return h - 1, len(*containers) - 1
	}
	sources, sinks := make([]network.Spot, l.Pairs), make([]network.Spot, l.Pairs)
	for pair, at := range l.at {
		sources[pair].Host, sources[pair].Container = where(at.sourceHost, nameOf(workload.Source, pair))
		sinks[pair].Host, sinks[pair].Container = where(at.sinkHost, nameOf(workload.Sink, pair))
		if at.sourceHost == at.sinkHost {
			here := spec.Hosts[at.sourceHost-1].Containers
			source, sink := &here[sources[pair].Container], &here[sinks[pair].Container]
			source.Peer, sink.Peer = sink.Name, source.Name
		}
	}
	if err := shareOut(spec.Hosts, l.generation.seed, c.most(l)); err != nil {
		return nil, host.Plan{}, fmt.Errorf("plan lab %s: %w", l.ID, err)
	}
	site := &network.Site{Lab: spec, Families: l.families}
	for pair := range l.Pairs {
		site.Pairs = append(site.Pairs, network.Pair{Source: sources[pair], Sink: sinks[pair], Ports: l.ports})
	}
	if err := network.Build(site, l.Stack); err != nil {
		return nil, host.Plan{}, fmt.Errorf("plan lab %s: %w", l.ID, err)
	}
	l.mtu = site.Lab.MTU
	for pair := range l.at {
		source, sink := sources[pair], sinks[pair]
		l.at[pair].source = site.Endpoints[source.Host][source.Container]
		l.at[pair].sourcePorts = spec.Hosts[source.Host].Containers[source.Container].Ports
		l.at[pair].sending = spec.Hosts[source.Host].Containers[source.Container].Sending()
		l.at[pair].sink = site.Endpoints[sink.Host][sink.Container]
		l.at[pair].sinkPorts = spec.Hosts[sink.Host].Containers[sink.Container].Ports
	}
	stops := func(spots []network.Spot) []network.Stop {
		list := make([]network.Stop, len(spots))
		for i, s := range spots {
			list[i] = network.Stop{
				Host: spec.Hosts[s.Host], Container: spec.Hosts[s.Host].Containers[s.Container],
				Endpoint: site.Endpoints[s.Host][s.Container],
			}
		}
		return list
	}
	l.ways = newWays(l, site.Lab, stops(sources), stops(sinks))
	l.across = across(site.Plans)
	if l.Hosts > 1 {
		n, _, _ := stack.PartOf[network.Network](l.Stack)
		underlay = network.Underlay(n, site.Lab)
	}
	l.plans, l.beneath = site.Plans, underlay
	return site.Plans, underlay, nil
}

// across returns the flow with which the filters of several hosts can be tried together, nil if there is none.
func across(plans []host.Plan) *filter.Probe {
	for _, p := range plans {
		for _, s := range p.Steps {
			if f, ok := s.(filter.Step); ok && f.Listed().Across != nil {
				return f.Listed().Across
			}
		}
	}
	return nil
}
