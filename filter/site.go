package filter

import (
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Sites returns the filter's site on each host: each pair may communicate at all ports of its sink but the last. That
// one is left out to prove that the filter refuses something.
func Sites(site *network.Site, at network.Point, bridge string, p part.Params) []Site {
	lab, ends := site.Lab, site.Endpoints
	sites := make([]Site, len(lab.Hosts))
	for h, of := range lab.Hosts {
		s := Site{Point: at, Bridge: bridge, Host: of.Index, Hosts: len(lab.Hosts), Inlets: lab.Inlets(of), Params: p}
		if at == network.AtOpenFlow {
			s.BridgeMAC = network.MAC(lab.Seed, of.Name(), bridge)
		}
		if s.Hosts > 1 {
			v4, v6 := lab.Underlaid(of)
			s.Underlay = []netip.Addr{v4.Addr(), v6.Addr()}
		}
		for i, c := range of.Containers {
			s.Containers = append(s.Containers, Container{Name: c.Name, Endpoint: ends[h][i]})
		}
		var allowed []Rule
		var proof, across *ProofPacket
		for i, pair := range site.Pairs {
			if pair.Source.Host != h && pair.Sink.Host != h {
				continue
			}
			source, sink := ends[pair.Source.Host][pair.Source.Container], ends[pair.Sink.Host][pair.Sink.Container]
			ports := lab.Hosts[pair.Sink.Host].Containers[pair.Sink.Container].Ports
			from := lab.Hosts[pair.Source.Host].Containers[pair.Source.Container]
			own, sending := from.Ports, from.Sending()
			for _, family := range site.Families {
				r := Rule{
					Source: seen(source, pair.Source.Host == h, family), Sink: seen(sink, pair.Sink.Host == h, family),
					First: ports.First, Last: max(ports.First, ports.Last-1), SourceFirst: sending.First, SourceLast: sending.Last,
				}
				r.Published = r.Source != source.Bind(family) || r.Sink != sink.Bind(family)
				at := func(port uint16) Rule {
					one := r
					one.First, one.Last = port, port
					return one
				}
				allowed = append(allowed, r)
				for _, port := range pair.Ports {
					allowed = append(allowed, at(port))
				}
				if ports.Last == ports.First {
					continue
				}
				flow := &ProofPacket{
					SourceNS: source.Namespace, SinkNS: sink.Namespace,
					Source: netip.AddrPortFrom(source.Bind(family), own.Last), Sink: netip.AddrPortFrom(sink.Bind(family), ports.Last),
					Public: netip.AddrPortFrom(sink.Public(family), ports.Last),
					Rule:   at(ports.Last),
				}
				switch {
				case pair.Source.Host == pair.Sink.Host && proof == nil:
					proof = flow
				case pair.Source.Host != pair.Sink.Host && i == 0 && across == nil:
					across = flow
				}
			}
		}
		s.List = NewList(slices.Clone(site.Families), allowed, proof, p)
		s.List.Across = across
		sites[h] = s
	}
	return sites
}

// Uplinks returns the links by which packets for the host itself arrive that are none of containers: that to the
// underlay, and that of an encryption on which a tunnel stands.
func (s Site) Uplinks() (list []string) {
	for _, in := range s.Inlets {
		if in.Host {
			list = append(list, in.Link)
		}
	}
	return list
}

// seen is the address of a container as its own host, or another, sees it.
func seen(e network.Endpoint, own bool, family string) netip.Addr {
	if own {
		return e.Bind(family)
	}
	return e.Public(family)
}
