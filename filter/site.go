package filter

import (
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// A Spot is a container of a lab: the places of its host and of itself among those, from 0.
type Spot struct{ Host, Container int }

// A Pair is allowed to talk.
type Pair struct {
	Source, Sink Spot
	// Ports are ports of the sink besides its own, at which programs listen that cannot be told otherwise.
	Ports []uint16
}

// Sites returns what a filter is asked to enforce on each host of a lab that was built: each pair may talk, at all ports of its sink but the last. That one is left to
// show that something is refused.
func Sites(lab network.Lab, ends [][]network.Endpoint, pairs []Pair, families []string, at network.Point, bridge string, p part.Params) []Site {
	sites := make([]Site, len(lab.Hosts))
	for h, of := range lab.Hosts {
		s := Site{Point: at, Bridge: bridge, Host: of.Index, Hosts: len(lab.Hosts), Uplink: of.Uplink, Params: p}
		for i, c := range of.Containers {
			s.Containers = append(s.Containers, Container{Name: c.Name, Endpoint: ends[h][i]})
		}
		var allowed []Rule
		var probe, across *Probe
		for i, pair := range pairs {
			if pair.Source.Host != h && pair.Sink.Host != h {
				continue
			}
			source, sink := ends[pair.Source.Host][pair.Source.Container], ends[pair.Sink.Host][pair.Sink.Container]
			ports := lab.Hosts[pair.Sink.Host].Containers[pair.Sink.Container].Ports
			for _, family := range families {
				r := Rule{Source: seen(source, pair.Source.Host == h, family), Sink: seen(sink, pair.Sink.Host == h, family), First: ports.First, Last: max(ports.First, ports.Last-1)}
				allowed = append(allowed, r)
				for _, port := range pair.Ports {
					allowed = append(allowed, Rule{Source: r.Source, Sink: r.Sink, First: port, Last: port})
				}
				if ports.Last == ports.First {
					continue
				}
				own := lab.Hosts[pair.Source.Host].Containers[pair.Source.Container].Ports.Last
				flow := &Probe{
					SourceNS: source.Namespace, SinkNS: sink.Namespace,
					Source: netip.AddrPortFrom(source.Bind(family), own), Sink: netip.AddrPortFrom(sink.Bind(family), ports.Last),
					Public: netip.AddrPortFrom(sink.Public(family), ports.Last),
					Rule:   Rule{Source: r.Source, Sink: r.Sink, First: ports.Last, Last: ports.Last},
				}
				switch {
				case pair.Source.Host == pair.Sink.Host && probe == nil:
					probe = flow
				case pair.Source.Host != pair.Sink.Host && i == 0 && across == nil:
					across = flow
				}
			}
		}
		s.List = NewList(slices.Clone(families), allowed, probe, p)
		s.List.Across = across
		sites[h] = s
	}
	return sites
}

// seen is the address of a container as its own host, or another, sees it.
func seen(e network.Endpoint, own bool, family string) netip.Addr {
	if own {
		return e.Bind(family)
	}
	return e.Public(family)
}
