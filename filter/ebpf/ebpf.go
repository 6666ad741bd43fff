package ebpf

import (
	"errors"
	"fmt"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf/allow"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// match is the name of the parameter.
const match = "match"

// Filter is the filter "ebpf".
type Filter struct{}

// Describe says what it is.
func (Filter) Describe() filter.Description {
	return filter.Description{
		Description: part.Description{
			Name:           "ebpf",
			Summary:        "an eBPF program on tcx, at the host's end of each container's link and at its links to other hosts",
			Implementation: "ebpf",
			Near:           near,
			Params: append(filter.Params(), part.Param{
				Name: match, Default: allow.Hash, Values: allow.Ways(),
				Summary: "how packets are looked up: in a hash of source and sink; in a trie of sources with a hash behind it " +
					"(in both, the position of decoy rules has no meaning); or by a program that compares one source after another",
			}),
		},
		Fragments:  func(part.Params) filter.Fragments { return filter.ByAddress },
		Errors:     func(part.Params) filter.Errors { return filter.Refused },
		Extensions: filter.Follows,
		Claims:     filter.Claims(func(part.Params) filter.Errors { return filter.Refused }),
		Steps:      map[string]func() host.Step{Listing{}.Kind(): func() host.Step { return new(Listing) }},
	}
}

// Refuse returns where it cannot be.
func (Filter) Refuse(w filter.Where, p part.Params) string {
	switch {
	case w.Point == network.InContainer:
		return fmt.Sprintf("filter ebpf needs a link on the host for each container, and %s has none (filters nftables and "+
			"iptables can filter inside the container)", w.Network)
	case w.Point == network.AtOpenFlow:
		return "packets that Open vSwitch forwards do not pass tcx in every datapath (use filter ovs)"
	case w.Translated:
		return "on tcx the addresses of packets are not yet translated (use filter nftables)"
	case p[match] == allow.Program && p.Count(filter.Rules) > allow.MaxCompiled:
		return fmt.Sprintf("match=program with more than %d rules exceeds the kernel's limit of instructions (use "+
			"match=hash or match=lpm)", allow.MaxCompiled)
	}
	return ""
}

// Enforced says that it is on tcx, wherever the network would have others.
func (Filter) Enforced(network.Point, part.Params) string { return network.AtTCX.String() }

// Check tries the program on links that nobody else sees.
func (Filter) Check(p part.Params) error {
	err := allow.Check(p[match], p.On(filter.Stateful), p.On(filter.Antispoof))
	if u, ok := errors.AsType[*linux.UnsupportedError](err); ok && u.Missing == "tcx" { // the only hook that it has
		return &linux.UnsupportedError{
			What: u.What, Missing: u.Missing, Err: u.Err,
			Hint: "Linux 6.6 or newer; filters nftables and iptables work on older kernels",
		}
	}
	return err
}

// Build returns one step for all links of the host.
func (f Filter) Build(s filter.Site) ([]host.Step, error) {
	if reason := f.Refuse(filter.Where{Network: "this network", Point: s.Point, Hosts: s.Hosts}, s.Params); reason != "" {
		return nil, fmt.Errorf("host %d: %s", s.Host, reason)
	}
	bound, err := s.Bindings()
	if err != nil {
		return nil, err
	}
	step := Listing{Match: s.Params[match], Bridged: s.Point == network.AtBridge, List: s.List, Bound: bound}
	for _, c := range s.Containers {
		if c.Link == "" {
			return nil, fmt.Errorf("host %d: container %q has no link on its host", s.Host, c.Name)
		}
		step.Links = append(step.Links, c.Link)
	}
	for i, in := range s.Inlets {
		step.Links = append(step.Links, in.Link)
		switch {
		case i == 0:
			step.Uplink, step.EtherType = in.Link, in.Type
		case in.Host:
			step.Layers = append(step.Layers, in.Link)
		}
	}
	return []host.Step{step}, nil
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"cilium", "networkpolicy"},
			Why: "Kubernetes' network policies are not measured yet; Cilium enforces them by eBPF programs, as this filter " +
				"does",
		},
	}
}
