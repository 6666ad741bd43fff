package nftables

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
	"strconv"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
)

// spare is how many elements a set can have besides those it begins with: what changes add.
const spare = 1024

// deciding is the chain in which packets are decided.
func (p Place) deciding() string {
	if len(p.hooked()) == 1 {
		return p.hooked()[0].Name
	}
	return chainDecide
}

// hooked are the chains to which packets come, without rules.
func (p Place) hooked() []ruleset.Chain {
	var list []ruleset.Chain
	for _, h := range p.Hooks {
		if p.Family != netdev {
			list = append(list, ruleset.Chain{Name: h, Hook: &ruleset.Hook{Name: h}})
			continue
		}
		for _, l := range p.Links {
			list = append(list, ruleset.Chain{Name: h + "-" + l, Hook: &ruleset.Hook{Name: h, Link: l}})
		}
	}
	return list
}

// table is what stands in a place.
func (t Tables) table(p Place) ruleset.Table {
	table := ruleset.Table{Family: p.Family, Name: name}
	add := func(name string, rules ...ruleset.Rule) {
		table.Chains = append(table.Chains, ruleset.Chain{Name: name, Rules: ruleset.All(rules...)})
	}
	if p.Host {
		table.Chains = append(table.Chains, t.host(p))
	}
	if len(p.Hooks) == 0 {
		return table
	}
	add(chainAccepted, ruleset.Rule(nil).Count().Accept())
	list := t.List
	if p.Of != nil {
		list.Allowed = nil
		for _, r := range t.List.Allowed {
			if p.concerns(r) {
				list.Allowed = append(list.Allowed, r)
			}
		}
	}
	var decide []ruleset.Rule
	w := ruleset.Word(0)
	if list.Stateful {
		decide = append(decide, known().Goto(chainAccepted))
	}
	for _, v6 := range []bool{false, true} {
		if !list.Lists(v6) {
			continue
		}
		v := versionOf(v6)
		rule := ruleset.Rule(nil).LoadMeta(w, ruleset.Family).Equal(w, v.family)
		if p.Family != inet {
			rule = ruleset.Rule(nil).LoadMeta(w, ruleset.EtherType).Equal(w, v.ether0, v.ether1)
		}
		decide = append(decide, rule.Jump(v.name()))
		v.fill(&table, t.Match, list)
	}
	decide = append(decide, p.besides()...)
	decide = append(decide, ruleset.Rule(nil).Count().Drop())
	hooked := p.hooked()
	if len(hooked) != 1 {
		add(chainDecide, decide...)
		decide = []ruleset.Rule{ruleset.Rule(nil).Goto(chainDecide)}
	}
	for _, c := range hooked {
		c.Rules = ruleset.All(decide...)
		table.Chains = append(table.Chains, c)
	}
	return table
}

// known asks for packets of known connections.
func known() ruleset.Rule {
	w := ruleset.Word(0)
	state := binary.NativeEndian.AppendUint32(nil, ruleset.Established|ruleset.Related)
	return ruleset.Rule(nil).LoadState(w).Mask(w, state...).Differ(w, 0, 0, 0, 0)
}

// host is the chain of what is for the host itself: it drops whatever containers send, but neighbour discovery, and
// answers where connections are known.
func (t Tables) host(p Place) ruleset.Chain {
	w := ruleset.Word(0)
	var rules []ruleset.Rule
	for _, link := range p.Uplinks {
		name := make([]byte, ruleset.LinkName)
		copy(name, link)
		rules = append(rules, ruleset.Rule(nil).LoadMeta(w, ruleset.InName).Equal(w, name...).Accept())
	}
	rules = append(rules, ruleset.Rule(nil).LoadMeta(w, ruleset.InLink).Equal(w,
		binary.NativeEndian.AppendUint32(nil, loopback)...).Accept())
	if t.List.Stateful {
		rules = append(rules, known().Accept())
	}
	rules = append(append(rules, neighbours(false)...), ruleset.Rule(nil).Count().Drop())
	return ruleset.Chain{Name: chainHost, Hook: &ruleset.Hook{Name: hookInput}, Rules: ruleset.All(rules...)}
}

// besides lets pass what the network itself needs, and what a container says to itself.
func (p Place) besides() []ruleset.Rule {
	w := ruleset.Word(0)
	list := neighbours(p.Routed)
	switch {
	case p.Family != inet:
		list = append(list, ruleset.Rule(nil).LoadMeta(w, ruleset.EtherType).Equal(w, 0x08, 0x06).Accept()) // ARP
	case p.Hooks[0] == hookInput:
		index := binary.NativeEndian.AppendUint32(nil, loopback)
		list = append(list, ruleset.Rule(nil).LoadMeta(w, ruleset.InLink).Equal(w, index...).Accept(),
			ruleset.Rule(nil).LoadMeta(w, ruleset.OutLink).Equal(w, index...).Accept())
	}
	return list
}

// fill adds the chain of a version, and what it looks into.
func (v version) fill(t *ruleset.Table, match string, l filter.List) {
	chain := ruleset.Chain{Name: v.name()}
	switch match {
	case linear:
		chain.Rules = v.linear(l)
	case set:
		chain.Rules = ruleset.All(v.lookups(l.Stateful)...)
		t.Sets = append(t.Sets,
			sized(v.set(), ruleset.Set{Fields: []ruleset.Field{v.field, v.field, ruleset.Port}, Elements: v.all(l)}),
			sized(v.pairs(), ruleset.Set{
				Fields:   []ruleset.Field{v.field, v.field},
				Elements: v.allPairs(l, v.pair, func(r filter.Rule) bool { return !r.Published }),
			}),
			sized(v.sending(), ruleset.Set{
				Map: true, Fields: []ruleset.Field{v.field, v.field},
				Elements: v.allPairs(l, v.sender, func(filter.Rule) bool { return true }),
			}))
		t.Chains = append(t.Chains, v.senderChains(l)...)
	case chains:
		chain.Rules = ruleset.All(v.load(nil, false).Map(v.set(), ruleset.Word(0)))
		ways := v.merged(l)
		for _, w := range ways {
			t.Chains = append(t.Chains, ruleset.Chain{Name: w.chain(), Rules: ruleset.All(w.rules...)})
		}
		t.Chains = append(t.Chains, v.decoyChains(l)...)
		t.Sets = append(t.Sets, sized(v.set(), ruleset.Set{
			Map: true, Fields: []ruleset.Field{v.field, v.field}, Elements: v.led(l, ways),
		}))
	}
	t.Chains = append(t.Chains, chain)
}

func sized(name string, s ruleset.Set) ruleset.Set {
	s.Name, s.Size = name, spare
	for range s.Elements {
		s.Size++
	}
	return s
}

// linear are the rules of a list, one behind the other.
func (v version) linear(l filter.List) iter.Seq[ruleset.Rule] {
	decoys := func(yield func(ruleset.Rule) bool) bool {
		var b ruleset.Rule
		for i := range l.Decoys {
			r := filter.Decoy(i, v.v6)
			b = v.decoy(v.between(b[:0], r.Source, r.Sink), i, r)
			if !yield(b) {
				return false
			}
		}
		return true
	}
	return func(yield func(ruleset.Rule) bool) {
		if !l.After && !decoys(yield) {
			return
		}
		for r, whole := range v.allowed(l) {
			for _, rule := range v.rules(r, l.Stateful, whole) {
				if !yield(rule) {
					return
				}
			}
		}
		if l.After {
			decoys(yield)
		}
	}
}

// decoy ends a decoy rule: of UDP and of TCP by turns.
func (v version) decoy(b ruleset.Rule, i int, r filter.Rule) ruleset.Rule {
	return ports(b, []byte{protocolUDP, protocolTCP}[i%2], sinkPort, r).Goto(chainAccepted)
}

// allowed are the rules of pairs, and whether each is the first of its pair.
func (v version) allowed(l filter.List) iter.Seq2[filter.Rule, bool] {
	type pair struct{ source, sink netip.Addr }
	return func(yield func(filter.Rule, bool) bool) {
		seen := map[pair]bool{}
		for _, r := range l.Allowed {
			if r.Sink.Is6() != v.v6 {
				continue
			}
			p := pair{r.Source, r.Sink}
			if !yield(r, !seen[p]) {
				return
			}
			seen[p] = true
		}
	}
}

// all are the elements of a set, each once.
func (v version) all(l filter.List) iter.Seq[ruleset.Element] {
	return func(yield func(ruleset.Element) bool) {
		b := make([]byte, 0, 36)
		for i := range l.Decoys {
			r := filter.Decoy(i, v.v6)
			if !yield(ruleset.Element{Key: append(v.key(b[:0], r.Source, r.Sink), byte(r.First>>8), byte(r.First), 0, 0)}) {
				return
			}
		}
		seen := map[string]bool{}
		for r := range v.allowed(l) {
			for e := range v.elements(r) {
				if seen[string(e.Key)] {
					continue
				}
				seen[string(e.Key)] = true
				if !yield(e) {
					return
				}
			}
		}
	}
}

// allPairs are the elements of a set or map that has one for each pair of some.
func (v version) allPairs(l filter.List, element func(filter.Rule) ruleset.Element,
	of func(filter.Rule) bool,
) iter.Seq[ruleset.Element] {
	return func(yield func(ruleset.Element) bool) {
		for r, whole := range v.allowed(l) {
			if whole && of(r) && !yield(element(r)) {
				return
			}
		}
	}
}

// senderChains are the chains of the pairs with the ports of their sources.
func (v version) senderChains(l filter.List) []ruleset.Chain {
	var list []ruleset.Chain
	at := map[string]int{}
	seen := map[filter.Rule]bool{}
	for r, whole := range v.allowed(l) {
		if whole {
			at[senders(r)] = len(list)
			list = append(list, ruleset.Chain{Name: senders(r), Rules: ruleset.All()})
		}
		r.First, r.Last = 0, 0
		if seen[r] {
			continue
		}
		seen[r] = true
		c := &list[at[senders(r)]]
		c.Rules = ruleset.All(append(slices.Collect(c.Rules), v.senderRules(r, l.Stateful)...)...)
	}
	return list
}

// merged are the ways of all pairs, those of the same two addresses in one.
func (v version) merged(l filter.List) []way {
	type ends struct{ from, to netip.Addr }
	at := map[ends]int{}
	var list []way
	for r, whole := range v.allowed(l) {
		for _, w := range v.ways(r, l.Stateful, whole) {
			i, ok := at[ends{w.from, w.to}]
			if !ok {
				i, at[ends{w.from, w.to}] = len(list), len(list)
				list = append(list, way{from: w.from, to: w.to})
			}
			list[i].rules = append(list[i].rules, w.rules...)
		}
	}
	return list
}

// led are the elements of a map.
func (v version) led(l filter.List, ways []way) iter.Seq[ruleset.Element] {
	return func(yield func(ruleset.Element) bool) {
		b := make([]byte, 0, 32)
		for i := range l.Decoys {
			r := filter.Decoy(i, v.v6)
			if !yield(ruleset.Element{Key: v.key(b[:0], r.Source, r.Sink), Chain: v.decoyChain(r)}) {
				return
			}
		}
		for _, w := range ways {
			if !yield(w.element(v)) {
				return
			}
		}
	}
}

// decoyChains are the chains that a map's decoy rules lead to, one for each port that they have.
func (v version) decoyChains(l filter.List) []ruleset.Chain {
	var list []ruleset.Chain
	seen := map[uint16]bool{}
	for i := range l.Decoys {
		r := filter.Decoy(i, v.v6)
		if seen[r.First] {
			continue
		}
		seen[r.First] = true
		list = append(list, ruleset.Chain{
			Name: v.decoyChain(r), Rules: func(yield func(ruleset.Rule) bool) { yield(v.decoy(nil, i, r)) },
		})
	}
	return list
}

// decoyChain is the name of the chain for decoy rules of a port.
func (v version) decoyChain(r filter.Rule) string {
	return v.name() + "-port-" + strconv.Itoa(int(r.First))
}
