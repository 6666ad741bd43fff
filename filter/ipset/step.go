package ipset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/ipset"
	"github.com/nettoll/nettoll/internal/linux/iptables"
	"github.com/nettoll/nettoll/network"
)

// Kind returns "ipset".
func (Sets) Kind() string { return "ipset" }

// String says the step as a person would.
func (s Sets) String() string {
	return fmt.Sprintf("sets, asked by iptables-%s %s", s.Variant, s.Traits("among"))
}

func (s Sets) tool(p filter.Place) iptables.Tool { return iptables.Tool{Variant: s.Variant, V6: p.V6} }

// Apply makes the sets and then the rules that ask them.
func (s Sets) Apply(_ context.Context, k *host.Kernel) error {
	if s.Point == network.AtBridge {
		if err := k.Do("", iptables.Bridged); err != nil {
			return err
		}
	}
	made, loaded := 0, 0 // in so many places
	places := s.Places()
	err := k.Load("rules", func() error {
		for _, p := range places {
			if err := k.Do(p.NS, func() error { return ipset.Create(s.set(p)) }); err != nil {
				return err
			}
			made++
			if err := k.Do(p.NS, func() error { return s.tool(p).Load(s.table(p)) }); err != nil {
				return err
			}
			loaded++
		}
		return nil
	})
	if err == nil {
		err = s.NoteMemory(k, func(p filter.Place) (int64, error) { return ipset.Memory(name(p)) })
	}
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
		return errors.Join(err, s.unload(k, places[:made], loaded))
	}
	k.Implementation("filter", fmt.Sprintf("kernel (%s, %s)", own, asked))
	return nil
}

// Remove unloads the rules and destroys the sets.
func (s Sets) Remove(_ context.Context, k *host.Kernel) error {
	places := s.Places()
	return s.unload(k, places, len(places))
}

// unload unloads the rules of the first places and destroys the sets of all. They go with their namespaces.
func (s Sets) unload(k *host.Kernel, places []filter.Place, loaded int) error {
	var errs []error
	for i, p := range slices.Backward(places) {
		if gone, err := k.Gone(p.NS); gone || err != nil {
			errs = append(errs, err)
			continue
		}
		if i < loaded {
			if err := k.Do(p.NS, s.tool(p).Unload); err != nil {
				errs = append(errs, err)
				continue // the rules ask the set
			}
		}
		errs = append(errs, k.Do(p.NS, func() error { return ipset.Destroy(name(p)) }))
	}
	return errors.Join(errs...)
}

// Verify reads every set and every table back.
func (s Sets) Verify(k *host.Kernel) error {
	return s.HookSite.Verify(k, s.String(), func(p filter.Place, add func(what, want, got string)) error {
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
}

// UpdateRule adds the entries of a rule, or takes away those that the list does not have as well. Inside containers the
// sink is changed first.
func (s Sets) UpdateRule(k *host.Kernel, rule filter.Rule, allow bool) error {
	verb, rules := "add", "-A "
	if !allow {
		verb, rules = "del", "-D "
	}
	for _, p := range s.Changed(rule) {
		if !concerns(p, rule) {
			continue
		}
		listed := map[string]bool{}
		known, sends := false, false
		for _, r := range s.allowed(p) {
			for _, e := range s.entries(r) {
				listed[e] = true
			}
			known = known || r.Source == rule.Source && r.Sink == rule.Sink
			sends = sends || senderOf(r) == senderOf(rule)
		}
		var entries, others []string
		for _, e := range s.entries(rule) {
			if !listed[e] {
				entries = append(entries, verb+" "+name(p)+" "+e)
			}
		}
		if !known && !s.List.Stateful {
			for _, text := range pair(rule).Rules() {
				others = append(others, rules+iptables.Fragments+" "+text)
			}
		}
		if !sends {
			for _, text := range senderOf(rule).forth() {
				others = append(others, rules+sending+" "+text)
			}
			if !s.List.Stateful {
				for _, text := range senderOf(rule).back() {
					others = append(others, rules+answering+" "+text)
				}
			}
		}
		if err := k.Do(p.NS, func() error {
			return errors.Join(ipset.Change(entries), s.tool(p).Change(others))
		}); err != nil {
			return err
		}
	}
	return nil
}

// Counters reads what the hooks have counted.
func (s Sets) Counters(k *host.Kernel) (filter.Counters, error) {
	return s.Count(k, func(p filter.Place, hook string) (filter.Counters, error) {
		c, err := s.tool(p).Counters(hook)
		return filter.Counters(c), err
	})
}

// Tracks says whether connections are tracked, see [host.Tracker].
func (s Sets) Tracks() bool { return s.List.Stateful }

// Lasting lists connections that the rules would not let begin now, see [host.Tracker].
func (s Sets) Lasting(_ *host.Kernel, tracked []conntrack.Flow) ([]string, string, error) {
	return s.List.Lasting(tracked), "", nil
}
