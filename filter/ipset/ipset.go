package ipset

import (
	"context"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ipset"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// variant is the name of the parameter.
const variant = "variant"

// Filter is the filter "ipset".
type Filter struct{}

// Describe says what it is. The default is the variant that the command iptables stands for in Debian (update-alternatives) and most others today.
func (Filter) Describe() filter.Description {
	return filter.Description{
		Name:           "ipset",
		Summary:        "a hash of addresses and ports, which a rule of iptables asks for each direction: where the host forwards, at its bridge by br_netfilter, or inside each container",
		Implementation: "kernel",
		Params: append(filter.Params(), part.Param{
			Name: variant, Default: iptables.NFT, Summary: "which of the kernel's two tables its rules of iptables are in, nf_tables or ip_tables", Values: []string{iptables.NFT, iptables.Legacy},
		}),
		Fragments: func(p part.Params) filter.Fragments {
			if p.On(filter.Stateful) {
				return filter.Reassembled
			}
			return filter.ByAddress
		},
		Steps: map[string]func() host.Step{Sets{}.Kind(): func() host.Step { return new(Sets) }},
	}
}

// Refuse says where packets do not pass iptables, that a set has no order, and where a list without connections would let pass more than it says: who
// behind the address of another host sends is not seen, and an answer to that address may be for anyone behind it.
func (Filter) Refuse(w filter.Where, p part.Params) string {
	switch w.Point {
	case network.AtBridge, network.AtForward, network.InContainer:
	default:
		return "under " + w.Network + " packets do not pass iptables: they are forwarded " + w.Point.String()
	}
	switch {
	case p[filter.Fillers] == "after":
		return "the entries of a set have no order, and fillers=after is fillers=before"
	case w.Translated && w.Hosts > 1 && !p.On(filter.Stateful):
		return "across hosts " + w.Network + " hides which container sends, and only connection tracking tells its answers from requests (stateful=true has it)"
	}
	return ""
}

// Check wants the programs.
func (Filter) Check(p part.Params) error {
	if err := ipset.Check(); err != nil {
		return err
	}
	return iptables.Check(p[variant])
}

// Build returns the step that loads sets and rules, and at a bridge those that let it ask iptables.
func (Filter) Build(s filter.Site) ([]host.Step, error) {
	sets := Sets{Variant: s.Params[variant], Point: s.Point, List: s.List}
	if s.Point == network.InContainer {
		for _, c := range s.Containers {
			sets.Inside = append(sets.Inside, Inside{NS: c.Namespace, IPv4: c.IPv4, IPv6: c.IPv6})
		}
	}
	var steps []host.Step
	if s.Point == network.AtBridge {
		steps = filter.Bridged()
	}
	return append(steps, sets), nil
}

// Measure notes what a change costs.
func (s Sets) Measure(ctx context.Context, k *host.Kernel) error { return filter.Measure(ctx, k, s) }
