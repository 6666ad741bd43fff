package iptables

import (
	"cmp"
	"context"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// variant is the name of the parameter.
const variant = "variant"

// Filter is the filter "iptables".
type Filter struct{}

// Describe says what it is. The default is the variant that the command iptables stands for in Debian
// (update-alternatives) and most others today.
func (Filter) Describe() filter.Description {
	return filter.Description{
		Description: part.Description{
			Name: "iptables",
			Summary: "iptables rules, one after another: in the host's forward path, at its bridge by br_netfilter, or inside " +
				"each container",
			Implementation: "kernel",
			Near:           near,
			Params: append(filter.Params(), part.Param{
				Name: variant, Default: iptables.NFT,
				Summary: "the kernel tables that it uses: nf_tables (nft) or ip_tables (legacy)",
				Values:  []string{iptables.NFT, iptables.Legacy},
			}),
		},
		Fragments: filter.Netfilter, Errors: filter.Tracked, Extensions: filter.Follows,
		Claims: filter.Claims(filter.Tracked),
		Steps:  filter.Steps(func() host.Step { return new(Rules) }),
	}
}

// Refuse says where it cannot be enforced.
func (Filter) Refuse(w filter.Where, p part.Params) string { return w.RefuseHooks(p) }

// Check wants the programs, and nftables where addresses are bound to links.
func (Filter) Check(p part.Params) error {
	return cmp.Or(iptables.Check(p[variant]), filter.CheckBound(p))
}

// Build returns the step that loads the rules, and at a bridge those that let it ask iptables.
func (Filter) Build(s filter.Site) ([]host.Step, error) {
	bound, err := s.Bound()
	if err != nil {
		return nil, err
	}
	var steps []host.Step
	if s.Point == network.AtBridge {
		steps = filter.Bridged()
	}
	return append(append(steps, Rules{Variant: s.Params[variant], HookSite: s.HookSite()}), bound...), nil
}

// MeasureCost notes what a change costs.
func (r Rules) MeasureCost(ctx context.Context, k *host.Kernel) error {
	return filter.MeasureCost(ctx, k, r)
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{Names: []string{"ufw"}, Why: "its rules are iptables rules"},
		{Names: []string{"iptables-legacy", "iptables-nft", "legacy"}, Why: "give the tables as its parameter variant"},
	}
}
