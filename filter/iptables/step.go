package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
)

// Kind returns "iptables".
func (Rules) Kind() string { return "iptables" }

// String says the step as a person would.
func (r Rules) String() string {
	decoys := "before"
	if r.List.After {
		decoys = "behind"
	}
	return fmt.Sprintf("rules of iptables-%s %s", r.Variant, r.Traits(decoys))
}

func (r Rules) tool(p filter.Place) iptables.Tool { return iptables.Tool{Variant: r.Variant, V6: p.V6} }

// Apply loads the rules.
func (r Rules) Apply(_ context.Context, k *host.Kernel) error {
	if r.Point == network.AtBridge {
		if err := k.Do("", iptables.Bridged); err != nil {
			return err
		}
	}
	var done []filter.Place
	places := r.Places()
	err := k.Load("rules", func() error {
		for _, p := range places {
			if err := k.Do(p.NS, func() error { return r.tool(p).Load(r.table(p)) }); err != nil {
				return err
			}
			done = append(done, p)
		}
		return nil
	})
	if err == nil {
		err = r.NoteMemory(k, func(p filter.Place) (int64, error) { return r.tool(p).Memory() })
	}
	var version string
	if err == nil && len(places) > 0 {
		err = k.Do("", func() (err error) {
			version, err = r.tool(places[0]).Version()
			return err
		})
	}
	if err != nil {
		return errors.Join(err, r.unload(k, done))
	}
	k.Implementation("filter", fmt.Sprintf("kernel (%s)", version))
	return nil
}

// Remove unloads the rules.
func (r Rules) Remove(_ context.Context, k *host.Kernel) error { return r.unload(k, r.Places()) }

// unload unloads the rules of some places. They go with their namespaces.
func (r Rules) unload(k *host.Kernel, places []filter.Place) error {
	var errs []error
	for _, p := range places {
		if gone, err := k.Gone(p.NS); gone || err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, k.Do(p.NS, r.tool(p).Unload))
	}
	return errors.Join(errs...)
}

// Verify reads every table back.
func (r Rules) Verify(k *host.Kernel) error {
	return r.HookSite.Verify(k, r.String(), func(p filter.Place, add func(what, want, got string)) error {
		list, err := r.tool(p).Compare(r.table(p))
		for _, d := range list {
			add(d.What, d.Want, d.Got)
		}
		return err
	})
}

// UpdateRule adds a rule behind those that stand, or before all where the decoy rules stand behind, or takes it away.
// Inside containers the sink is changed first.
func (r Rules) UpdateRule(k *host.Kernel, rule filter.Rule, allow bool) error {
	verb := "-A "
	switch {
	case !allow:
		verb = "-D "
	case r.List.After:
		verb = "-I "
	}
	known := slices.ContainsFunc(r.List.Allowed, func(a filter.Rule) bool {
		return a.Source == rule.Source && a.Sink == rule.Sink
	})
	for _, p := range r.Changed(rule) {
		var lines []string
		for _, hook := range p.Hooks {
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
		if err := k.Do(p.NS, func() error { return r.tool(p).Change(lines) }); err != nil {
			return err
		}
	}
	return nil
}

// Counters reads what the hooks have counted.
func (r Rules) Counters(k *host.Kernel) (filter.Counters, error) {
	return r.Count(k, func(p filter.Place, hook string) (filter.Counters, error) {
		c, err := r.tool(p).Counters(hook)
		return filter.Counters(c), err
	})
}

// Tracks says whether connections are tracked, see [host.Tracker].
func (r Rules) Tracks() bool { return r.List.Stateful }

// Lasting lists connections that the rules would not let begin now, see [host.Tracker].
func (r Rules) Lasting(_ *host.Kernel, tracked []conntrack.Flow) ([]string, string, error) {
	return r.List.Lasting(tracked), "", nil
}
