package nft

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ErrNotFound means that there is no such table.
var ErrNotFound = errors.New("not found")

// ErrExists means that the table already exists.
var ErrExists = errors.New("exists already")

// A Table is a table of the family inet, for IPv4 and IPv6 packets.
type Table struct {
	Name   string
	Maps   []Map
	Chains []Chain
}

// A Map maps port numbers to addresses.
type Map struct {
	Name string
	// IPv6 says that the addresses are IPv6; otherwise they are IPv4.
	IPv6 bool
	// Entries do not overlap. Their order has no meaning.
	Entries []Entry
}

// An Entry of a map is an address for the ports from First to Last, inclusive.
type Entry struct {
	First, Last uint16
	To          netip.Addr
}

// A Chain is a list of rules at a hook. Packets that no rule decides pass.
type Chain struct {
	Name string
	// Type is the type of the chain, which limits its rules: "nat".
	Type string
	// Hook is the hook of the chain: "prerouting", "input", "forward", "output", "postrouting".
	Hook string
	// Priority orders the chains at a hook. For "nat", -100 (dstnat) and 100 (srcnat) are usual, see nft(8).
	Priority int
	Rules    []Rule
}

// A Rule has conditions, which must all hold, and one action. An address in a condition or in the action limits the
// rule to packets of its family.
type Rule struct {
	// Source and Destination are the addresses of packets; the zero value means any.
	Source, Destination netip.Prefix
	// Protocol is "udp" or "tcp", or "" for any.
	Protocol string
	// DNAT names the map that gives a new destination for the packet's port. A packet without an entry is not changed.
	// It requires Protocol.
	DNAT string
	// SNAT is the new source. The port stays the same unless another connection uses it.
	SNAT netip.Addr
}

// String returns the entry in the syntax of nft(8).
func (e Entry) String() string {
	if e.First == e.Last {
		return fmt.Sprintf("%d : %s", e.First, e.To)
	}
	return fmt.Sprintf("%d-%d : %s", e.First, e.Last, e.To)
}

// String returns the rule in the syntax of nft(8).
func (r Rule) String() string {
	var parts []string
	for _, p := range []struct {
		word   string
		prefix netip.Prefix
	}{{"saddr", r.Source}, {"daddr", r.Destination}} {
		switch {
		case !p.prefix.IsValid():
		case p.prefix.IsSingleIP():
			parts = append(parts, word(p.prefix.Addr()), p.word, p.prefix.Addr().String())
		default:
			parts = append(parts, word(p.prefix.Addr()), p.word, p.prefix.String())
		}
	}
	if r.Protocol != "" && r.DNAT == "" {
		parts = append(parts, "meta l4proto", r.Protocol)
	}
	if r.DNAT != "" {
		parts = append(parts, "dnat", word(r.Destination.Addr()), "to", r.Protocol, "dport map @"+r.DNAT)
	}
	if r.SNAT.IsValid() {
		parts = append(parts, "snat", word(r.SNAT), "to", r.SNAT.String())
	}
	return strings.Join(parts, " ")
}

// word returns nft(8)'s name for the family of an address.
func word(a netip.Addr) string {
	if a.Is6() {
		return "ip6"
	}
	return "ip"
}

// Check returns an error if a table is known to be invalid.
func (t Table) Check() error {
	if t.Name == "" {
		return errors.New("a table without a name")
	}
	families := map[string]bool{} // of maps: whether IPv6
	for _, m := range t.Maps {
		families[m.Name] = m.IPv6
		entries := slices.SortedFunc(slices.Values(m.Entries), func(a, b Entry) int { return cmp.Compare(a.First, b.First) })
		for i, e := range entries {
			if e.Last < e.First || !e.To.IsValid() || e.To.Is6() != m.IPv6 {
				return fmt.Errorf("map %q: %q is not a port range with an address of its family", m.Name, e)
			}
			if i > 0 && entries[i-1].Last >= e.First {
				return fmt.Errorf("map %q: %q overlaps %q", m.Name, e, entries[i-1])
			}
		}
	}
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			if err := r.check(families); err != nil {
				return fmt.Errorf("rule %q of chain %q: %w", r, c.Name, err)
			}
		}
	}
	return nil
}

func (r Rule) check(maps map[string]bool) error {
	var family *bool
	addresses := []netip.Addr{r.Source.Addr(), r.Destination.Addr(), r.SNAT}
	for _, a := range addresses {
		is6 := a.Is6()
		if a.IsValid() && family != nil && *family != is6 {
			return errors.New("addresses of two families")
		}
		if a.IsValid() {
			family = &is6
		}
	}
	switch {
	case r.Protocol != "" && r.Protocol != "udp" && r.Protocol != "tcp":
		return fmt.Errorf("protocol %q (known: udp, tcp)", r.Protocol)
	case (r.DNAT != "") == r.SNAT.IsValid():
		return errors.New("exactly one of dnat and snat is required")
	case r.DNAT == "":
		return nil
	case r.Protocol == "" || !r.Destination.IsValid():
		return errors.New("dnat by port wants a protocol and a destination")
	}
	if is6, ok := maps[r.DNAT]; !ok || is6 != r.Destination.Addr().Is6() {
		return fmt.Errorf("no map %q of its family", r.DNAT)
	}
	return nil
}
