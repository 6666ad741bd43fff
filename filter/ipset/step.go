package ipset

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ipset"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
)

// Kind returns "ipset".
func (Sets) Kind() string { return "ipset" }

// String says the step as a person would.
func (s Sets) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sets, asked by iptables-%s %s: drop all but %d flows of %s", s.Variant, s.Point, len(s.List.Allowed), strings.Join(s.List.Families, " and "))
	if s.List.Stateful {
		b.WriteString(" and their answers")
	}
	if s.List.Fillers > 0 {
		fmt.Fprintf(&b, ", %d fillers among them", s.List.Fillers)
	}
	if len(s.Inside) > 0 {
		fmt.Fprintf(&b, ", in %d containers", len(s.Inside))
	}
	return b.String()
}

// Listed returns the list.
func (s Sets) Listed() filter.List { return s.List }

func (s Sets) tool(p place) iptables.Tool { return iptables.Tool{Variant: s.Variant, V6: p.v6} }

// Apply makes the sets and then the rules that ask them.
func (s Sets) Apply(k *host.Kernel) (func() error, error) {
	if s.Point == network.AtBridge {
		if err := k.Do("", iptables.Bridged); err != nil {
			return nil, err
		}
	}
	var undos []func() error
	undo := func() error {
		var errs []error
		for _, undo := range slices.Backward(undos) {
			if err := undo(); !errors.Is(err, fs.ErrNotExist) { // the container is gone
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	places := s.places()
	err := k.Load("rules", func() error {
		for _, p := range places {
			set := s.set(p)
			if err := k.Do(p.ns, func() error { return ipset.Create(set) }); err != nil {
				return err
			}
			undos = append(undos, func() error { return k.Do(p.ns, func() error { return ipset.Destroy(set.Name) }) })
			if err := k.Do(p.ns, func() error { return s.tool(p).Load(s.table(p)) }); err != nil {
				return err
			}
			undos = append(undos, func() error { return k.Do(p.ns, s.tool(p).Unload) })
		}
		return nil
	})
	var own, asked string
	if err == nil && len(places) > 0 {
		err = k.Do("", func() (err error) {
			if own, err = ipset.Version(); err != nil {
				return err
			}
			asked, err = s.tool(places[0]).Version()
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	k.Implementation("filter", fmt.Sprintf("kernel (%s, %s)", own, asked))
	return undo, nil
}

// Verify reads every set and every table back.
func (s Sets) Verify(k *host.Kernel) error {
	drift := &host.DriftError{Step: s.String()}
	for _, p := range s.places() {
		add := func(what, want, got string) {
			if p.v6 {
				what += " of IPv6"
			}
			if p.ns != "" {
				what += " in " + p.ns
			}
			drift.Drifts = append(drift.Drifts, host.Drift{What: what, Want: want, Got: got})
		}
		err := k.Do(p.ns, func() error {
			entries, err := ipset.Compare(s.set(p))
			if err != nil {
				return err
			}
			for _, d := range entries {
				add(d.What, d.Want, d.Got)
			}
			rules, err := s.tool(p).Compare(s.table(p))
			for _, d := range rules {
				add(d.What, d.Want, d.Got)
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			add("namespace "+p.ns, "present", "absent")
		} else if err != nil {
			return err
		}
	}
	if len(drift.Drifts) > 0 {
		return drift
	}
	return nil
}

// Change adds the entries of a rule, or takes away those that the list does not have as well. Inside containers the sink is changed first.
func (s Sets) Change(k *host.Kernel, rule filter.Rule, allow bool) error {
	verb, rules := "add", "-A "
	if !allow {
		verb, rules = "del", "-D "
	}
	places := s.places()
	slices.SortStableFunc(places, func(a, b place) int {
		if a.own == rule.Sink && b.own != rule.Sink {
			return -1
		}
		return 0
	})
	for _, p := range places {
		if !p.sees(rule) {
			continue
		}
		listed := map[string]bool{}
		known := false
		for _, r := range s.allowed(p) {
			for _, e := range s.entries(r) {
				listed[e] = true
			}
			known = known || r.Source == rule.Source && r.Sink == rule.Sink
		}
		var entries, fragments []string
		for _, e := range s.entries(rule) {
			if !listed[e] {
				entries = append(entries, verb+" "+p.name()+" "+e)
			}
		}
		if !known && !s.List.Stateful {
			for _, text := range pair(rule).Rules() {
				fragments = append(fragments, rules+iptables.Fragments+" "+text)
			}
		}
		if err := k.Do(p.ns, func() error { return errors.Join(ipset.Change(entries), s.tool(p).Change(fragments)) }); err != nil {
			return err
		}
	}
	return nil
}

// Counters reads what the hooks have counted: inside containers what came in is let through, and what was refused either way is refused.
func (s Sets) Counters(k *host.Kernel) (filter.Counters, error) {
	var sum filter.Counters
	for _, p := range s.places() {
		for _, hook := range p.hooks {
			var c iptables.Counters
			if err := k.Do(p.ns, func() (err error) {
				c, err = s.tool(p).Counters(hook)
				return err
			}); err != nil {
				return filter.Counters{}, err
			}
			sum.Refused += c.Refused
			if hook != "OUTPUT" {
				sum.Allowed += c.Allowed
			}
		}
	}
	return sum, nil
}
