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
			Summary:        "a table of nftables, as rules one behind the other, as a set or as a verdict map",
			Implementation: "kernel",
			Params: append(filter.Params(),
				part.Param{
					Name: match, Default: linear, Values: []string{linear, set, chains},
					Summary: "what a packet is compared with: a rule for each pair and protocol, a set of source, sink and port, or " +
						"a verdict map of source and sink to a chain for the pair",
				},
				part.Param{
					Name: table, Default: auto, Values: []string{auto, inet, bridge, netdev}, Quiet: true,
					Summary: "the family of the table: inet, bridge (only at a bridge), netdev (ingress of the host's links); auto " +
						"is bridge at a bridge if it is not stateful, else inet",
				},
			),
		},
		Fragments: filter.Netfilter, Errors: filter.Tracked, Extensions: filter.Follows,
		Steps: filter.Steps(func() host.Step { return new(Tables) }),
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
		return "what Open vSwitch forwards does not come to nftables (filter ovs does it by OpenFlow)"
	case network.AtTCX:
		return "what eBPF redirects on tcx does not come to nftables (filter ebpf decides there)"
	}
	f := family(w.Point, p)
	switch {
	case w.Unbound(p) != "":
		return w.Unbound(p)
	case f == bridge && w.Point != network.AtBridge:
		return fmt.Sprintf("a table of the family bridge sees what a bridge forwards, and under %s none does (table=inet "+
			"is possible)", w.Network)
	case f == netdev && w.Point == network.InContainer:
		return fmt.Sprintf("a table of the family netdev stands at the host's links to containers, and under %s there are "+
			"none (table=inet is possible)", w.Network)
	case w.Hides(p) != "":
		return w.Hides(p)
	case f == netdev && w.Point == network.AtBridge && w.Hosts > 1:
		return "at ingress of a bridge's port neighbour discovery for the host, which forwards it to others, looks like " +
			"that for a neighbour (table=inet is possible)"
	case f == netdev && w.Translated:
		return "at ingress packets have not yet the addresses that they are translated to (table=inet is possible)"
	case f == netdev && w.Hosts > 1:
		return "at ingress of the host's links to containers nothing is seen of what comes from other hosts (table=inet is " +
			"possible)"
	case f == netdev && p.On(filter.Stateful):
		return "connections are not yet known at ingress (table=inet is possible, or stateful=false)"
	case f == bridge && p.On(filter.Stateful):
		return "connections are not known in the family bridge unless a kernel has nf_conntrack_bridge (table=inet is " +
			"possible, by br_netfilter, or stateful=false)"
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
	forward := Place{Family: inet, Hooks: []string{hookForward}, Host: true, Uplink: s.Uplink}
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
