package ipset

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/ipset"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
)

// Sets load an allow-list into sets, and the rules that ask them into iptables.
type Sets struct {
	// Variant is that of iptables.
	Variant string `json:"variant"`
	filter.HookSite
}

// concerns says whether packets of a rule come along.
func concerns(p filter.Place, r filter.Rule) bool {
	forth, back := p.Sees(p.Hooks[0], r)
	return forth || back
}

// allowed are the rules of the pairs whose packets come along.
func (s Sets) allowed(p filter.Place) []filter.Rule {
	return slices.DeleteFunc(slices.Clone(s.List.Allowed), func(r filter.Rule) bool { return !concerns(p, r) })
}

// name is what the set of a place is called.
func name(p filter.Place) string {
	if p.V6 {
		return "nettoll6"
	}
	return "nettoll4"
}

// set is what stands in a place. No entry is there twice, though rules may overlap.
func (s Sets) set(p filter.Place) ipset.Set {
	set := ipset.Set{Name: name(p), V6: p.V6}
	if s.List.Lists(p.V6) {
		set.Entries = make([]string, 0, s.List.Decoys)
		for i := range s.List.Decoys {
			f := filter.Decoy(i, p.V6)
			set.Entries = append(set.Entries, entry(f.Source, []string{"udp", "tcp"}[i%2], fmt.Sprint(f.First), f.Sink))
		}
	}
	seen := map[string]bool{}
	for _, r := range s.allowed(p) {
		for _, e := range s.entries(r) {
			if !seen[e] {
				seen[e] = true
				set.Entries = append(set.Entries, e)
			}
		}
	}
	return set
}

// entries are those of a rule: its ports and its echoes, RFC 792, RFC 4443 sections 4.1 and 4.2.
func (s Sets) entries(r filter.Rule) []string {
	var list []string
	for _, protocol := range []string{"udp", "tcp"} {
		for port := int(r.First); port <= int(r.Last); port++ {
			list = append(list, entry(r.Source, protocol, fmt.Sprint(port), r.Sink))
		}
	}
	if r.Published {
		return list
	}
	icmp := "icmp"
	if r.Sink.Is6() {
		icmp = "icmpv6"
	}
	list = append(list, entry(r.Source, icmp, "echo-request", r.Sink))
	if !s.List.Stateful {
		list = append(list, entry(r.Sink, icmp, "echo-reply", r.Source))
	}
	return list
}

func entry(from netip.Addr, protocol, port string, to netip.Addr) string {
	return fmt.Sprintf("%s,%s:%s,%s", from, protocol, port, to)
}

// table are the rules that ask the set of a place.
func (s Sets) table(p filter.Place) iptables.Table {
	a := iptables.Allowlist{V6: p.V6, Stateful: s.List.Stateful, Neighbours: s.Point != network.AtForward}
	asks := func(before, dimensions, chain string) string {
		return fmt.Sprintf("%s-m set --match-set %s %s -j %s", before, name(p), dimensions, chain)
	}
	var rules []string
	switch {
	case !s.List.Lists(p.V6): // nothing to ask
	case s.List.Stateful:
		rules = []string{asks("-m conntrack --ctstate NEW ", "src,dst,dst", sending)}
	default:
		rules = []string{
			asks("", "src,dst,dst", sending), asks("-p udp ", "dst,src,src", answering),
			asks("-p tcp -m tcp ! --tcp-flags SYN,ACK SYN ", "dst,src,src", answering),
		}
	}
	if len(rules) > 0 {
		icmp := map[bool]string{false: "icmp", true: "ipv6-icmp"}[p.V6]
		forth, back := iptables.Chain{Name: sending, Rules: []string{"-p " + icmp + " -j ACCEPT"}},
			iptables.Chain{Name: answering}
		seen := map[sender]bool{}
		for _, r := range s.allowed(p) {
			if of := senderOf(r); !seen[of] {
				seen[of] = true
				forth.Rules, back.Rules = append(forth.Rules, of.forth()...), append(back.Rules, of.back()...)
			}
		}
		a.Chains = append(a.Chains, forth)
		if !s.List.Stateful {
			a.Chains = append(a.Chains, back)
		}
	}
	for _, hook := range p.Hooks {
		if p.Guards(hook) {
			a.Hooks = append(a.Hooks, iptables.Hook{Name: hook, Host: true, Uplinks: s.Uplinks})
			continue
		}
		a.Hooks = append(a.Hooks, iptables.Hook{Name: hook, Rules: rules})
	}
	if !s.List.Stateful {
		for r := range filter.Pairs(slices.Values(s.allowed(p))) {
			a.Pairs = append(a.Pairs, pair(r))
		}
	}
	return a.Table()
}

// The chains with the ports of sources, for what the set has let through from a source and to it: an entry has one
// port, and a type of sets that holds ranges of ports beside addresses there is not.
const (
	sending   = "nettoll-sending"
	answering = "nettoll-answering"
)

// sender is a source and its ports.
type sender struct {
	address     netip.Addr
	first, last uint16
}

func senderOf(r filter.Rule) sender { return sender{r.Source, r.SourceFirst, r.SourceLast} }

// forth are the rules for what it sends, back those for answers.
func (s sender) forth() []string { return s.rules("-s", "--sport") }
func (s sender) back() []string  { return s.rules("-d", "--dport") }

func (s sender) rules(address, port string) []string {
	span := fmt.Sprintf("%d:%d", s.first, s.last)
	if s.first == s.last {
		span = fmt.Sprint(s.first)
	}
	var list []string
	for _, protocol := range []string{"udp", "tcp"} {
		list = append(list, fmt.Sprintf("%s %s -p %s -m %[3]s %s %s -j ACCEPT", address,
			netip.PrefixFrom(s.address, s.address.BitLen()), protocol, port, span))
	}
	return list
}

// pair are the addresses of a rule.
func pair(r filter.Rule) iptables.Pair {
	whole := func(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
	return iptables.Pair{A: whole(r.Source), B: whole(r.Sink)}
}
