package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
)

// site has two pairs, one of each family, the first at two ranges of ports.
func site(point network.Point, change func(*filter.List)) Rules {
	a := netip.MustParseAddr
	r := Rules{Variant: "nft", HookSite: filter.HookSite{Point: point, List: filter.List{
		Families: []string{"ipv4", "ipv6"},
		Allowed: []filter.Rule{
			{Source: a("10.0.0.1"), Sink: a("10.0.0.2"), First: 7, Last: 9, SourceFirst: 30, SourceLast: 39},
			{Source: a("10.0.0.1"), Sink: a("10.0.0.2"), First: 80, Last: 80, SourceFirst: 30, SourceLast: 39},
			{Source: a("fd00::1"), Sink: a("fd00::2"), First: 7, Last: 9, SourceFirst: 30, SourceLast: 39},
		},
	}}}
	if point == network.InContainer {
		r.Inside = []filter.Inside{
			{NS: "src0", IPv4: a("10.0.0.1"), IPv6: a("fd00::1")}, {NS: "snk0", IPv4: a("10.0.0.2"), IPv6: a("fd00::2")},
		}
	}
	if change != nil {
		change(&r.List)
	}
	return r
}

// own says what stands in the chains of the filter, a line each, the namespace before it.
func own(r Rules) string {
	var b strings.Builder
	for _, p := range r.Places() {
		for _, c := range r.table(p).Chains {
			for _, rule := range c.Rules {
				if c.Policy == "" {
					fmt.Fprintf(&b, "%s %s %s\n", p.NS, strings.TrimPrefix(c.Name, "nettoll-"),
						strings.NewReplacer(" -m udp", "", " -m tcp", "", " -j ACCEPT", "").Replace(rule))
				}
			}
		}
	}
	return b.String()
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Rules
	}{
		{
			"forward, stateless, decoy rules before",
			site(network.AtForward, func(l *filter.List) {
				l.Families, l.Allowed, l.Decoys = []string{"ipv4"}, l.Allowed[:2], 2
			}),
		},
		{
			"bridge, stateful, decoy rules after",
			site(network.AtBridge, func(l *filter.List) {
				l.Allowed, l.Stateful, l.Decoys, l.After = l.Allowed[2:], true, 1, true
			}),
		},
		{"container, stateless", site(network.InContainer, func(l *filter.List) { l.Allowed = l.Allowed[1:] })},
	} {
		t.Run(c.name, func(t *testing.T) {
			golden.Compare(t, "rules-"+c.name, own(c.r))
		})
	}
}
