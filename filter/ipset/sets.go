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
	Variant string        `json:"variant"`
	Point   network.Point `json:"point"`
	// Inside are the containers in which they stand, where they do.
	Inside []Inside `json:"inside,omitempty"`
	// List is what may pass.
	List filter.List `json:"list"`
}

// An Inside is a container.
type Inside struct {
	NS   string     `json:"ns"`
	IPv4 netip.Addr `json:"ipv4"`
	IPv6 netip.Addr `json:"ipv6"`
}

// A place is a namespace with the set and the table of one family.
type place struct {
	ns    string
	v6    bool
	own   netip.Addr // of the container; the zero value is the host
	hooks []string
}

// places are where the sets stand.
func (s Sets) places() []place {
	var list []place
	for _, v6 := range []bool{false, true} {
		if s.Point != network.InContainer {
			list = append(list, place{v6: v6, hooks: []string{"FORWARD"}})
		}
		for _, c := range s.Inside {
			own := c.IPv4
			if v6 {
				own = c.IPv6
			}
			list = append(list, place{ns: c.NS, v6: v6, own: own, hooks: []string{"INPUT", "OUTPUT"}})
		}
	}
	return list
}

// sees says whether packets of a rule come along.
func (p place) sees(r filter.Rule) bool {
	return r.Source.Is6() == p.v6 && (!p.own.IsValid() || p.own == r.Source || p.own == r.Sink)
}

// allowed are the rules of the pairs whose packets come along.
func (s Sets) allowed(p place) []filter.Rule {
	return slices.DeleteFunc(slices.Clone(s.List.Allowed), func(r filter.Rule) bool { return !p.sees(r) })
}

// name is what the set of a family is called.
func (p place) name() string {
	if p.v6 {
		return "nettoll6"
	}
	return "nettoll4"
}

// set is what stands in a place. No entry is there twice, though rules may overlap.
func (s Sets) set(p place) ipset.Set {
	set := ipset.Set{Name: p.name(), V6: p.v6}
	if s.List.Lists(p.v6) {
		set.Entries = make([]string, 0, s.List.Fillers)
		for i := range s.List.Fillers {
			f := filter.Filler(i, p.v6)
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
func (s Sets) table(p place) iptables.Table {
	a := iptables.Allowlist{V6: p.v6, Stateful: s.List.Stateful, Neighbours: s.Point != network.AtForward}
	asks := func(before, dimensions string) string {
		return fmt.Sprintf("%s-m set --match-set %s %s -j ACCEPT", before, p.name(), dimensions)
	}
	var rules []string
	switch {
	case !s.List.Lists(p.v6): // nothing to ask
	case s.List.Stateful:
		rules = []string{asks("-m conntrack --ctstate NEW ", "src,dst,dst")}
	default:
		rules = []string{asks("", "src,dst,dst"), asks("-p udp ", "dst,src,src"), asks("-p tcp -m tcp ! --tcp-flags SYN,ACK SYN ", "dst,src,src")}
	}
	for _, hook := range p.hooks {
		a.Hooks = append(a.Hooks, iptables.Hook{Name: hook, Rules: rules})
	}
	if !s.List.Stateful {
		for r := range filter.Pairs(slices.Values(s.allowed(p))) {
			a.Pairs = append(a.Pairs, pair(r))
		}
	}
	return a.Table()
}

// pair are the addresses of a rule.
func pair(r filter.Rule) iptables.Pair {
	whole := func(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
	return iptables.Pair{A: whole(r.Source), B: whole(r.Sink)}
}
