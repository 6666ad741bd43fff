package bridge

import (
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Network is the network "bridge".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "bridge",
		Summary:        "a Linux bridge on each host with a veth to every container",
		Implementation: "kernel",
		Near:           near,
		Claims:         claims,
		Params: append(part.List{
			network.By(network.ByDocker, network.ByLXC, network.ByPodman), network.BridgeNF(), network.Hairpin(),
		}, network.LinkParams()...),
	}
}

// claims are those of a switch that learns.
func claims(int, part.Params) threat.Claims {
	return slices.Concat(network.Passes(), network.Floods("the bridge"))
}

// FilterPoint says that packets can be filtered at the bridge.
func (Network) FilterPoint(part.Params) (network.Point, string) {
	return network.AtBridge, network.Bridge
}

// Exclude leaves out labs of several hosts whose bridge a runtime builds: it translates what leaves the host.
func (Network) Exclude(hosts int, p part.Params) string {
	if by := network.RuledBy(p); by != "" && hosts > 1 {
		return "the bridge of " + by + " translates what leaves the host, as network nat does"
	}
	return ""
}

// Unfilterable says why a bridge that a runtime builds has no filter.
func (Network) Unfilterable(_ int, p part.Params) string {
	if by := network.RuledBy(p); by != "" {
		return by + " has the host forward, so containers would bypass a filter at their bridge by their gateway"
	}
	return ""
}

// Check says which of the parameters cannot be had here.
func (Network) Check(p part.Params) error { return network.CheckLinks(p) }

// StaticNeighbours says that large labs have static neighbour entries.
func (Network) StaticNeighbours() {}

// Trace says that packets pass the bridge, and across hosts the network stacks of both.
func (Network) Trace(t network.Trip) network.Way { return t.Bridged(!t.Same()) }

// Serves returns the ranges of the host's containers.
func (Network) Serves(_ network.Lab, h network.Host) []netip.Prefix { return network.Ranges(h) }

// Build makes a bridge on each host, with a port for every container.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		steps := network.Base(lab, h)
		switch {
		case len(lab.Hosts) > 1:
			steps = append(steps, network.Forwarding()...)
		case network.RuledBy(lab.Params) == "":
			steps = append(steps, network.NoForwarding()...)
		}
		bridged, theirs, err := network.Bridged(lab, h, len(lab.Hosts) > 1)
		if err != nil {
			return nil, nil, err
		}
		steps, ends[i] = slices.Concat(steps, bridged, network.Tuned(lab.Params, theirs)), theirs
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"veth", "lxc", "lxcbr0"},
			Why:   "it joins its containers by veth",
		},
	}
}
