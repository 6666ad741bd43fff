package ipset

import (
	"cmp"
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

// Describe says what it is. The default is the variant that the command iptables stands for in Debian
// (update-alternatives) and most others today.
func (Filter) Describe() filter.Description {
	return filter.Description{
		Description: part.Description{
			Name: "ipset",
			Summary: "a hash of addresses and ports with one iptables rule per direction: in the host's forward path, at its " +
				"bridge by br_netfilter, or inside each container",
			Implementation: "kernel",
			Params: append(filter.Params(), part.Param{
				Name: variant, Default: iptables.NFT,
				Summary: "the kernel tables of its iptables rules: nf_tables (nft) or ip_tables (legacy)",
				Values:  []string{iptables.NFT, iptables.Legacy},
			}),
		},
		Fragments: filter.Netfilter, Errors: filter.Tracked, Extensions: filter.Follows,
		Claims: filter.Claims(filter.Tracked),
		Steps:  filter.Steps(func() host.Step { return new(Sets) }),
	}
}

// Refuse says where it cannot be enforced, and that a set has no order.
func (Filter) Refuse(w filter.Where, p part.Params) string {
	if reason := w.RefuseHooks(p); reason != "" || p[filter.Decoys] != "after" {
		return reason
	}
	return "the entries of a set have no order, so fillers=after equals fillers=before"
}

// Check wants the programs, and nftables where addresses are bound to links.
func (Filter) Check(p part.Params) error {
	return cmp.Or(ipset.Check(), iptables.Check(p[variant]), filter.CheckBound(p))
}

// Build returns the step that loads sets and rules, and at a bridge those that let it ask iptables.
func (Filter) Build(s filter.Site) ([]host.Step, error) {
	bound, err := s.Bound()
	if err != nil {
		return nil, err
	}
	var steps []host.Step
	if s.Point == network.AtBridge {
		steps = filter.Bridged()
	}
	return append(append(steps, Sets{Variant: s.Params[variant], HookSite: s.HookSite()}), bound...), nil
}

// MeasureCost notes what a change costs.
func (s Sets) MeasureCost(ctx context.Context, k *host.Kernel) error {
	return filter.MeasureCost(ctx, k, s)
}
