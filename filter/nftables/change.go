package nftables

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
)

// change is one rule more in a table, or one that was added less.
type change struct {
	*ruleset.Batch
	place  Place
	list   filter.List
	allow  bool
	placed []ruleset.Placed // by whoever has added it, where that is known
}

// write writes down what is to be done.
func (c *change) write(match string, r filter.Rule) error {
	v := versionOf(r.Sink.Is6())
	// Rules without ports belong to a pair, and those of the list's pairs stay.
	whole := !slices.ContainsFunc(c.list.Allowed, func(other filter.Rule) bool { return samePair(r, other) })
	switch match {
	case linear:
		return c.rules(v.name(), v.rules(r, c.list.Stateful, whole))
	case set:
		return c.set(v, r, whole)
	}
	for _, w := range v.ways(r, c.list.Stateful, whole) {
		if c.allow && whole {
			c.AddChain(w.chain())
		}
		if !c.allow && whole {
			c.elements(v.set(), one(w.element(v)))
		}
		if err := c.rules(w.chain(), w.rules); err != nil {
			return err
		}
		if c.allow && whole {
			c.elements(v.set(), one(w.element(v)))
		}
		if !c.allow && whole {
			c.DeleteChain(w.chain())
		}
	}
	return nil
}

// set changes what is looked up, the ports of the source among it: first what leads elsewhere is taken away, and last
// it is added.
func (c *change) set(v version, r filter.Rule, whole bool) error {
	lookups := func() {
		if whole {
			if !r.Published {
				c.elements(v.pairs(), one(v.pair(r)))
			}
			c.elements(v.sending(), one(v.sender(r)))
		}
		c.elements(v.set(), c.unlisted(r, v.elements(r)))
	}
	sends := !slices.ContainsFunc(c.list.Allowed, func(other filter.Rule) bool {
		return samePair(r, other) && r.SourceFirst == other.SourceFirst && r.SourceLast == other.SourceLast
	})
	if !c.allow {
		lookups()
	} else if whole {
		c.AddChain(senders(r))
	}
	if sends {
		if err := c.rules(senders(r), v.senderRules(r, c.list.Stateful)); err != nil {
			return err
		}
	}
	if c.allow {
		lookups()
	} else if whole {
		c.DeleteChain(senders(r))
	}
	return nil
}

func samePair(a, b filter.Rule) bool { return a.Source == b.Source && a.Sink == b.Sink }

func (c *change) elements(set string, list iter.Seq[ruleset.Element]) {
	if c.allow {
		c.AddElements(set, list)
	} else {
		c.DeleteElements(set, list)
	}
}

// unlisted leaves out elements for ports that the list has.
func (c *change) unlisted(r filter.Rule, list iter.Seq[ruleset.Element]) iter.Seq[ruleset.Element] {
	return func(yield func(ruleset.Element) bool) {
		for e := range list {
			port := binary.BigEndian.Uint16(e.Key[len(e.Key)-4:])
			listed := slices.ContainsFunc(c.list.Allowed, func(other filter.Rule) bool {
				return samePair(r, other) && other.First <= port && port <= other.Last
			})
			if !listed && !yield(e) {
				return
			}
		}
	}
}

// rules adds rules behind those of a chain, or removes the last that are equal to each.
func (c *change) rules(chain string, rules []ruleset.Rule) error {
	if c.allow {
		for _, r := range rules {
			c.AddRule(chain, r)
		}
		return nil
	}
	known := false
	for _, p := range c.placed {
		if p.Chain == chain {
			c.DeleteRule(chain, p.Handle)
			known = true
		}
	}
	if known {
		return nil
	}
	there, err := ruleset.Read(c.place.Family, name, chain)
	if err != nil {
		return err
	}
	slices.Reverse(there)
	for _, r := range rules {
		h := r.Hash()
		i := slices.IndexFunc(there, func(f ruleset.Found) bool { return f.Hash == h })
		if i < 0 {
			return fmt.Errorf("rule to remove not found in chain %s", chain)
		}
		c.DeleteRule(chain, there[i].Handle)
		there = slices.Delete(there, i, i+1)
	}
	return nil
}
