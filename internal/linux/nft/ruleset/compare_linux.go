package ruleset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// rules calls f with the chain and the attributes of every rule of a table, or of one of its chains.
func (s *socket) rules(family byte, table, chain string, f func(chain, attributes []byte)) error {
	q := text(nil, attributeName, table)
	if chain != "" {
		q = text(q, ruleChain, chain)
	}
	return s.ask(getRule, flagDump, family, q, func(a []byte) {
		// A kernel without that filter (before 4.12) returns the rules of all tables.
		if word(find(a, attributeName)) == table {
			f(find(a, ruleChain), a)
		}
	})
}

// Read returns the rules of a chain, in order; if chain is "", those of all chains of the table.
func Read(family, table, chain string) ([]Found, error) {
	s, err := dial()
	if err != nil {
		return nil, err
	}
	defer s.close()
	var list []Found
	for tries := 0; ; tries++ {
		list = list[:0]
		err = s.rules(families()[family], table, chain, func(of, a []byte) {
			expressions := find(a, ruleExpressions)
			list = append(list, Found{
				Chain: word(of), Handle: handle(a), Hash: Rule(expressions).hash(), Packets: packets(expressions),
			})
		})
		if !errors.Is(err, errInterrupted) || tries == 3 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read chain %q of table %q of nftables (%s): %w", chain, table, family, err)
	}
	return list, nil
}

// Compare reads a table and returns the differences. Things in it that are not wanted are differences, too. For each
// set, and for the rules of each chain, it names up to ten differences.
func Compare(t Table) ([]linux.Difference, error) {
	s, err := dial()
	if err != nil {
		return nil, err
	}
	defer s.close()
	c := &comparison{socket: s, family: families()[t.Family], table: t}
	for tries := 0; ; tries++ {
		c.list = nil
		err = c.all()
		if !errors.Is(err, errInterrupted) || tries == 3 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read table %q of nftables (%s): %w", t.Name, t.Family, err)
	}
	return c.list, nil
}

type comparison struct {
	*socket
	family byte
	table  Table
	list   []linux.Difference
}

// Words and limits of differences.
const (
	most = 10 // differences of one chain or set that are named
)

func (c *comparison) add(what, want, got string) {
	if want != got {
		c.list = append(c.list, linux.Difference{What: what, Want: want, Got: got})
	}
}

func (c *comparison) all() error {
	var flags []byte
	err := c.ask(getTable, flagAcknowledge, c.family, text(nil, attributeName, c.table.Name), func(a []byte) {
		flags = slices.Clone(find(a, tableFlags))
	})
	if errors.Is(err, unix.ENOENT) {
		c.add("table "+c.table.Name, linux.Present, linux.Absent)
		return nil
	}
	if err != nil {
		return err
	}
	if len(flags) != 4 {
		return errors.New("the kernel's answer has no flags")
	}
	if binary.BigEndian.Uint32(flags)&flagDormant != 0 {
		c.add("table "+c.table.Name, "active", "dormant")
	}
	if err := c.chains(); err != nil {
		return err
	}
	if err := c.sets(); err != nil {
		return err
	}
	return c.compareRules()
}

// chains compares the chains and their hooks.
func (c *comparison) chains() error {
	there := map[string]string{}
	err := c.ask(getChain, flagDump, c.family, nil, func(a []byte) {
		if word(find(a, attributeName)) != c.table.Name {
			return
		}
		hook, traits := find(a, chainHook), "no hook"
		if hook != nil {
			n, p := find(hook, hookNumber), find(hook, hookPriority)
			policy := find(a, chainPolicy)
			if len(n) == 4 && len(p) == 4 && len(policy) == 4 {
				traits = hooked(binary.BigEndian.Uint32(n), int32(binary.BigEndian.Uint32(p)), word(find(hook, hookLink)),
					word(find(a, chainType)), binary.BigEndian.Uint32(policy))
			}
		}
		there[word(find(a, attributeThird))] = traits
	})
	if err != nil {
		return err
	}
	for _, w := range c.table.Chains {
		want := "no hook"
		if w.Hook != nil {
			want = hooked(w.Hook.number(c.family), w.Hook.Priority, w.Hook.Link, "filter", policyDrop)
		}
		got, ok := there[w.Name]
		if !ok {
			got = linux.Absent
		}
		c.add("chain "+w.Name, want, got)
		delete(there, w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		c.add("chain "+name, linux.Absent, linux.Present)
	}
	return nil
}

func hooked(number uint32, priority int32, link, kind string, policy uint32) string {
	word := "accept"
	if policy == policyDrop {
		word = "drop"
	}
	if link != "" {
		link = " device " + link
	}
	return fmt.Sprintf("type %s hook %d%s priority %d policy %s", kind, number, link, priority, word)
}

// compareRules compares the rules of every chain by their hashes, in order.
func (c *comparison) compareRules() error {
	there := map[string][]uint64{}
	var name string // of the chain that the last rule was of
	var list []uint64
	if err := c.rules(c.family, c.table.Name, "", func(chain, a []byte) {
		if chain := word(chain); chain != name {
			there[name] = list
			name, list = chain, there[chain]
		}
		list = append(list, Rule(find(a, ruleExpressions)).hash())
	}); err != nil {
		return err
	}
	there[name] = list
	for _, w := range c.table.Chains {
		got, n, more := there[w.Name], 0, 0
		for r := range w.Rules {
			if h := r.hash(); n < len(got) && got[n] != h || n >= len(got) {
				if more++; more <= most {
					// A missing rule shifts all later ones: the rest is as wanted, one place earlier.
					if n+1 > len(got) {
						c.add(fmt.Sprintf("rule %d of chain %s", n+1, w.Name), linux.Present, linux.Absent)
					} else {
						c.add(fmt.Sprintf("rule %d of chain %s", n+1, w.Name), "the plan's", "another")
					}
				}
			}
			n++
		}
		if n < len(got) {
			c.add("rules of chain "+w.Name, fmt.Sprint(n), fmt.Sprint(len(got)))
		}
	}
	return nil
}

// sets compares the sets and their elements.
func (c *comparison) sets() error {
	type traits struct{ flags, length uint32 }
	there := map[string]traits{}
	if err := c.ask(getSet, flagDump, c.family, text(nil, attributeName, c.table.Name), func(a []byte) {
		flags, length := find(a, setFlags), find(a, setKeyLength)
		if word(find(a, attributeName)) != c.table.Name {
			return
		}
		t := traits{length: binary.BigEndian.Uint32(length)}
		if flags != nil {
			t.flags = binary.BigEndian.Uint32(flags)
		}
		there[word(find(a, attributeSecond))] = t
	}); err != nil {
		return err
	}
	for _, s := range c.table.Sets {
		got, ok := there[s.Name]
		if !ok {
			c.add("set "+s.Name, linux.Present, linux.Absent)
			continue
		}
		delete(there, s.Name)
		var want traits
		for _, f := range s.Fields {
			want.length += f.length()
		}
		if s.Map {
			want.flags = flagMap
		}
		c.add("kind of set "+s.Name, fmt.Sprint(want), fmt.Sprint(got))
		if err := c.compareElements(s); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		c.add("set "+name, linux.Absent, linux.Present)
	}
	return nil
}

// compareElements compares the number of elements and the sum of their hashes, because their order has no meaning. Only
// if these differ does it look for the different elements.
func (c *comparison) compareElements(s Set) error {
	var count, total uint64
	for e := range s.Elements {
		count, total = count+1, total+e.hash()
	}
	read := func(f func(Element)) error {
		return c.ask(getSetElement, flagDump, c.family, text(text(nil, attributeName, c.table.Name), attributeSecond, s.Name),
			func(a []byte) {
				each(find(a, listElements), func(_ uint16, element []byte) {
					f(Element{
						Key:   find(find(element, elementKey), dataValue),
						Chain: word(find(find(find(element, elementData), dataVerdict), verdictTo)),
					})
				})
			})
	}
	if err := read(func(e Element) { count, total = count-1, total-e.hash() }); err != nil {
		return err
	}
	if count == 0 && total == 0 {
		return nil
	}
	missing, more := map[string]bool{}, 0
	for e := range s.Elements {
		missing[name(e)] = true
	}
	if err := read(func(e Element) {
		if !missing[name(e)] {
			if more++; more <= most {
				c.add("element "+name(e)+" of set "+s.Name, linux.Absent, linux.Present)
			}
		}
		delete(missing, name(e))
	}); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(missing))[:min(most, len(missing))] {
		c.add("element "+n+" of set "+s.Name, linux.Present, linux.Absent)
	}
	return nil
}

func name(e Element) string {
	if e.Chain == "" {
		return fmt.Sprintf("%x", e.Key)
	}
	return fmt.Sprintf("%x : %s", e.Key, e.Chain)
}
