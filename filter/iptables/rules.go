package iptables

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
)

// Rules load an allow-list into iptables.
type Rules struct {
	// Variant is that of the programs.
	Variant string `json:"variant"`
	filter.HookSite
}

// table is what stands in a place.
func (r Rules) table(p filter.Place) iptables.Table {
	a := iptables.Allowlist{V6: p.V6, Stateful: r.List.Stateful, Neighbours: r.Point != network.AtForward}
	listed := r.List.Lists(p.V6)
	for _, hook := range p.Hooks {
		h := iptables.Hook{Name: hook}
		if p.Guards(hook) {
			h.Host, h.Uplinks = true, r.Uplinks
			a.Hooks = append(a.Hooks, h)
			continue
		}
		if listed && !r.List.After {
			h.Rules = r.decoys(h.Rules, p.V6)
		}
		for _, rule := range r.List.Allowed {
			h.Rules = append(h.Rules, r.ports(p, hook, rule)...)
		}
		for rule := range filter.Pairs(slices.Values(r.List.Allowed)) {
			h.Rules = append(h.Rules, r.echoes(p, hook, rule)...)
		}
		if listed && r.List.After {
			h.Rules = r.decoys(h.Rules, p.V6)
		}
		a.Hooks = append(a.Hooks, h)
	}
	for rule := range filter.Pairs(slices.Values(r.List.Allowed)) {
		if pair, ok := r.fragments(p, rule); ok {
			a.Pairs = append(a.Pairs, pair)
		}
	}
	return a.Table()
}

// opening is the end of a rule for packets that open a flow.
func (r Rules) opening() string {
	if r.List.Stateful {
		return " -m conntrack --ctstate NEW -j ACCEPT"
	}
	return " -j ACCEPT"
}

// decoys appends the decoy rules of a family: a rule each, of UDP and of TCP in turn.
func (r Rules) decoys(rules []string, v6 bool) []string {
	rules = slices.Grow(rules, r.List.Decoys)
	for i := range r.List.Decoys {
		f := filter.Decoy(i, v6)
		rules = append(rules, forth(f, []string{"udp", "tcp"}[i%2])+r.opening())
	}
	return rules
}

// ports are the rules for the ports of one of the list, at a hook.
func (r Rules) ports(p filter.Place, hook string, rule filter.Rule) []string {
	goes, comes := p.Sees(hook, rule)
	var rules []string
	if goes {
		rules = append(rules, forth(rule, "udp")+r.opening(), forth(rule, "tcp")+r.opening())
	}
	if comes && !r.List.Stateful {
		rules = append(rules, back(rule, "udp", "")+" -j ACCEPT", back(rule, "tcp", " ! --tcp-flags SYN,ACK SYN")+
			" -j ACCEPT")
	}
	return rules
}

// echoes are the rules for the echoes of a pair, at a hook: RFC 792, RFC 4443 sections 4.1 and 4.2.
func (r Rules) echoes(p filter.Place, hook string, rule filter.Rule) []string {
	protocol, request, reply := "-p icmp -m icmp --icmp-type", 8, 0
	if p.V6 {
		protocol, request, reply = "-p ipv6-icmp -m icmp6 --icmpv6-type", 128, 129
	}
	goes, comes := p.Sees(hook, rule)
	if rule.Published {
		return nil
	}
	var rules []string
	if goes {
		rules = append(rules, fmt.Sprintf("-s %s -d %s %s %d%s", whole(rule.Source), whole(rule.Sink), protocol, request,
			r.opening()))
	}
	if comes && !r.List.Stateful {
		rules = append(rules, fmt.Sprintf("-s %s -d %s %s %d -j ACCEPT", whole(rule.Sink), whole(rule.Source), protocol,
			reply))
	}
	return rules
}

// fragments is the pair of a rule, if fragments of it come along there and are decided by address.
func (r Rules) fragments(p filter.Place, rule filter.Rule) (iptables.Pair, bool) {
	forth, back := p.Sees(p.Hooks[0], rule)
	return iptables.Pair{A: whole(rule.Source), B: whole(rule.Sink)}, !r.List.Stateful && (forth || back)
}

func forth(r filter.Rule, protocol string) string {
	from := ""
	if !r.FromAnyPort() { // as decoy rules, which are no dearer than they were
		from = " --sport " + span(r.SourceFirst, r.SourceLast)
	}
	return fmt.Sprintf("-s %s -d %s -p %s -m %[3]s%s --dport %s", whole(r.Source), whole(r.Sink), protocol, from,
		span(r.First, r.Last))
}

func back(r filter.Rule, protocol, flags string) string {
	return fmt.Sprintf("-s %s -d %s -p %s -m %[3]s --sport %s --dport %s%s", whole(r.Sink), whole(r.Source), protocol,
		span(r.First, r.Last), span(r.SourceFirst, r.SourceLast), flags)
}

// whole is an address as rules have it.
func whole(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// span are ports as rules have them.
func span(first, last uint16) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d:%d", first, last)
}
