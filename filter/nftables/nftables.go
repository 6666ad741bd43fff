package nftables

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Names and values of the filter's own parameters.
const (
	match  = "match"
	linear = "linear"
	set    = "set"
	chains = "map"

	table  = "table"
	auto   = "auto"
	inet   = "inet"
	bridge = "bridge"
	netdev = "netdev"
)

// Filter is the filter "nftables".
type Filter struct{}

// Describe says what it is.
func (Filter) Describe() filter.Description {
	return filter.Description{
		Description: part.Description{
			Name:           "nftables",
			Summary:        "an nftables table: a list of rules, a set or a verdict map",
			Implementation: "kernel",
			Near:           near,
			Params: append(filter.Params(),
				part.Param{
					Name: match, Default: linear, Values: []string{linear, set, chains},
					Summary: "how rules are matched: linear: a rule per pair and protocol; set: one set of source, sink and port; " +
						"map: a verdict map from source and sink to a chain of the pair",
				},
				part.Param{
					Name: table, Default: auto, Values: []string{auto, inet, bridge, netdev}, Quiet: true,
					Summary: "family of the table: inet, bridge (only at a bridge) or netdev (ingress of the host's links); auto: " +
						"bridge at a bridge if not stateful, otherwise inet",
				},
			),
		},
		Fragments: filter.Netfilter, Errors: filter.Tracked, Extensions: filter.Follows,
		Claims: filter.Claims(filter.Tracked),
		Steps:  filter.Steps(func() host.Step { return new(Tables) }),
	}
}

// family is the word of the table that is made.
func family(at network.Point, p part.Params) string {
	switch {
	case p[table] != auto:
		return p[table]
	case at == network.AtBridge && !p.On(filter.Stateful):
		return bridge
	}
	return inet
}

// Enforced says where the table is.
func (Filter) Enforced(at network.Point, p part.Params) string {
	if p[table] == netdev {
		return "at the ingress of the host's end of each container's link"
	}
	return at.String()
}

// Refuse returns where it cannot be.
func (Filter) Refuse(w filter.Where, p part.Params) string {
	switch w.Point {
	case network.AtOpenFlow:
		return "packets that Open vSwitch forwards do not pass nftables (use filter ovs)"
	case network.AtTCX:
		return "packets that eBPF redirects on tcx do not pass nftables (use filter ebpf)"
	}
	f := family(w.Point, p)
	switch {
	case w.Unbound(p) != "":
		return w.Unbound(p)
	case f == bridge && w.Point != network.AtBridge:
		return fmt.Sprintf("table=bridge filters what a bridge forwards, and %s has no bridge (use table=inet)", w.Network)
	case f == netdev && w.Point == network.InContainer:
		return fmt.Sprintf("table=netdev filters at the host's links to containers, and %s has none (use "+
			"table=inet)", w.Network)
	case w.Hides(p) != "":
		return w.Hides(p)
	case f == netdev && w.Point == network.AtBridge && w.Hosts > 1:
		return "table=netdev cannot tell neighbour discovery for the host from that for other containers at a bridge port " +
			"(use table=inet)"
	case f == netdev && w.Translated:
		return "table=netdev filters before addresses are translated (use table=inet)"
	case f == netdev && w.Hosts > 1:
		return "table=netdev does not see packets from other hosts (use table=inet)"
	case f == netdev && p.On(filter.Stateful):
		return "table=netdev has no connection tracking (use table=inet or stateful=false)"
	case f == bridge && p.On(filter.Stateful):
		return "table=bridge has no connection tracking without nf_conntrack_bridge (use table=inet, which needs " +
			"br_netfilter, or stateful=false)"
	}
	return ""
}

// Check wants nftables.
func (Filter) Check(part.Params) error { return filter.CheckNftables() }

// Build returns one step with all tables of the host, and what brings bridged packets to it.
func (f Filter) Build(s filter.Site) ([]host.Step, error) {
	if reason := f.Refuse(filter.Where{Network: "this network", Point: s.Point, Hosts: s.Hosts}, s.Params); reason != "" {
		return nil, fmt.Errorf("host %d: %s", s.Host, reason)
	}
	bound, err := s.Bound()
	if err != nil {
		return nil, err
	}
	step := Tables{Match: s.Params[match], List: s.List}
	forward := Place{Family: inet, Hooks: []string{hookForward}, Host: true, Uplinks: s.Uplinks()}
	switch f := family(s.Point, s.Params); {
	case s.Point == network.InContainer:
		for _, c := range s.Containers {
			p := Place{NS: c.Namespace, Family: inet, Hooks: []string{hookInput, hookOutput}}
			for _, a := range []netip.Addr{c.IPv4, c.IPv6} {
				if a.IsValid() {
					p.Of = append(p.Of, a)
				}
			}
			step.Places = append(step.Places, p)
		}
	case f == netdev:
		p := Place{Family: netdev, Hooks: []string{hookIngress}, Routed: s.Point != network.AtBridge}
		for _, c := range s.Containers {
			if c.Link == "" {
				return nil, fmt.Errorf("host %d: container %q has no link on its host", s.Host, c.Name)
			}
			p.Links = append(p.Links, c.Link)
		}
		step.Places = append(step.Places, p)
	case f == bridge:
		step.Places = append(step.Places, Place{Family: bridge, Hooks: []string{hookForward}})
		if s.Hosts == 1 {
			forward.Hooks = nil // a bridge hands up what is for the host, and the host forwards nothing
		}
		step.Places = append(step.Places, forward)
	case s.Point == network.AtBridge:
		forward.Bridged = true
		// The table stands before packets come to it.
		return slices.Concat([]host.Step{Tables{Match: step.Match, List: step.List, Places: []Place{forward}}},
			filter.Bridged(), bound), nil
	default:
		step.Places = append(step.Places, forward)
	}
	return append([]host.Step{step}, bound...), nil
}

// callIPTables says that br_netfilter is there, see [filter.Bridged].
const callIPTables = "net.bridge.bridge-nf-call-iptables"

// concerns says whether a rule is a place's business.
func (p Place) concerns(r filter.Rule) bool {
	return p.Of == nil || slices.Contains(p.Of, r.Source) || slices.Contains(p.Of, r.Sink)
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{Names: []string{"nft", "firewalld", "nf_tables"}, Why: "its rules are nftables rules"},
	}
}
