package iptables

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
)

// Kind returns "iptables".
func (Rules) Kind() string { return "iptables" }

// String says the step as a person would.
func (r Rules) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rules of iptables-%s %s: drop all but %d flows of %s", r.Variant, r.Point, len(r.List.Allowed), strings.Join(r.List.Families, " and "))
	if r.List.Stateful {
		b.WriteString(" and their answers")
	}
	if r.List.Fillers > 0 {
		where := "before"
		if r.List.After {
			where = "behind"
		}
		fmt.Fprintf(&b, ", %d fillers %s them", r.List.Fillers, where)
	}
	if len(r.Inside) > 0 {
		fmt.Fprintf(&b, ", in %d containers", len(r.Inside))
	}
	return b.String()
}

// Listed returns the list.
func (r Rules) Listed() filter.List { return r.List }

func (r Rules) tool(p place) iptables.Tool { return iptables.Tool{Variant: r.Variant, V6: p.v6} }

// Apply loads the rules.
func (r Rules) Apply(k *host.Kernel) (func() error, error) {
	if r.Point == network.AtBridge {
		if err := k.Do("", iptables.Bridged); err != nil {
			return nil, err
		}
	}
	var done []place
	undo := func() error {
		var errs []error
		for _, p := range done {
			err := k.Do(p.ns, r.tool(p).Unload)
			if !errors.Is(err, fs.ErrNotExist) { // the container is gone
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	places := r.places()
	err := k.Load("rules", func() error {
		for _, p := range places {
			if err := k.Do(p.ns, func() error { return r.tool(p).Load(r.table(p)) }); err != nil {
				return err
			}
			done = append(done, p)
		}
		return nil
	})
	var version string
	if err == nil && len(places) > 0 {
		err = k.Do("", func() (err error) {
			version, err = r.tool(places[0]).Version()
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	k.Implementation("filter", fmt.Sprintf("kernel (%s)", version))
	return undo, nil
}

// Verify reads every table back.
func (r Rules) Verify(k *host.Kernel) error {
	drift := &host.DriftError{Step: r.String()}
	for _, p := range r.places() {
		var list []iptables.Difference
		err := k.Do(p.ns, func() (err error) {
			list, err = r.tool(p).Compare(r.table(p))
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			list = []iptables.Difference{{What: "namespace " + p.ns, Want: "present", Got: "absent"}}
		} else if err != nil {
			return err
		}
		for _, d := range list {
			what := d.What
			if p.v6 {
				what += " of IPv6"
			}
			if p.ns != "" {
				what += " in " + p.ns
			}
			drift.Drifts = append(drift.Drifts, host.Drift{What: what, Want: d.Want, Got: d.Got})
		}
	}
	if len(drift.Drifts) > 0 {
		return drift
	}
	return nil
}

// Change adds a rule behind those that stand, or before all where the fillers stand behind, or takes it away. Inside containers the sink is changed first.
func (r Rules) Change(k *host.Kernel, rule filter.Rule, allow bool) error {
	verb := "-A "
	switch {
	case !allow:
		verb = "-D "
	case r.List.After:
		verb = "-I "
	}
	known := slices.ContainsFunc(r.List.Allowed, func(a filter.Rule) bool { return a.Source == rule.Source && a.Sink == rule.Sink })
	places := r.places()
	slices.SortStableFunc(places, func(a, b place) int {
		if a.own == rule.Sink && b.own != rule.Sink {
			return -1
		}
		return 0
	})
	for _, p := range places {
		var lines []string
		for _, hook := range p.hooks {
			rules := r.ports(p, hook, rule)
			if !known {
				rules = append(rules, r.echoes(p, hook, rule)...)
			}
			for _, text := range rules {
				lines = append(lines, verb+iptables.OwnChain(hook)+" "+text)
			}
		}
		if pair, ok := r.fragments(p, rule); ok && !known {
			for _, text := range pair.Rules() {
				lines = append(lines, strings.Replace(verb, "I", "A", 1)+iptables.Fragments+" "+text)
			}
		}
		if err := k.Do(p.ns, func() error { return r.tool(p).Change(lines) }); err != nil {
			return err
		}
	}
	return nil
}

// Counters reads what the hooks have counted: inside containers what came in is let through, and what was refused either way is refused.
func (r Rules) Counters(k *host.Kernel) (filter.Counters, error) {
	var sum filter.Counters
	for _, p := range r.places() {
		for _, hook := range p.hooks {
			var c iptables.Counters
			if err := k.Do(p.ns, func() (err error) {
				c, err = r.tool(p).Counters(hook)
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
