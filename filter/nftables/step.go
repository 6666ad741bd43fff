package nftables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// Tables is the step: a list enforced by a table in each of some places.
type Tables struct {
	Match  string      `json:"match"`
	Places []Place     `json:"places"`
	List   filter.List `json:"list"`
}

// A Place is where a table stands.
type Place struct {
	// NS is a namespace reference as in steps.
	NS     string   `json:"ns,omitempty"`
	Family string   `json:"family"`
	Hooks  []string `json:"hooks"`
	// Links are those at whose ingress it stands.
	Links []string `json:"links,omitempty"`
	// Routed says that the host forwards from its links, at whose ingress it stands.
	Routed bool `json:"routed,omitempty"`
	// Bridged says that bridged packets come by br_netfilter.
	Bridged bool `json:"bridged,omitempty"`
	// Host says that packets for the host itself are decided there, too. None of them is on the list. Uplinks are links
	// by which those arrive that do not come from containers, see [filter.Site.Uplinks].
	Host    bool     `json:"host,omitempty"`
	Uplinks []string `json:"uplinks,omitempty"`
	// Of are the addresses whose pairs it knows, those of a container. Nil means all.
	Of []netip.Addr `json:"of,omitempty"`
}

// name is that of the tables.
const name = "nettoll-filter"

// Kind returns "nftables".
func (Tables) Kind() string { return "nftables" }

// String says the step as a person would.
func (t Tables) String() string {
	var where []string
	for i, p := range t.Places {
		hooks := p.Hooks
		if p.Host {
			hooks = append(slices.Clone(hooks), hookInput)
		}
		text := p.Family + " " + strings.Join(hooks, " and ")
		if len(p.Links) > 0 {
			text += " of " + few(p.Links)
		}
		text += in(p.NS)
		if i < 3 || len(t.Places) <= 4 {
			where = append(where, text)
		} else if i == 3 {
			where = append(where, fmt.Sprintf("%d more", len(t.Places)-i))
		}
	}
	traits := "stateless"
	if t.List.Stateful {
		traits = "stateful"
	}
	return fmt.Sprintf("nftables (%s, %s) at %s: %d pairs' rules and %d decoy rules, of %s", t.Match, traits,
		strings.Join(where, ", "), len(t.List.Allowed), t.List.Decoys, strings.Join(t.List.Families, " and "))
}

func few(list []string) string {
	if len(list) > 4 {
		return fmt.Sprintf("%s, %s, … (%d)", list[0], list[1], len(list))
	}
	return strings.Join(list, ", ")
}

// Listed returns the list.
func (t Tables) Listed() filter.List { return t.List }

// each calls f for every place, inside its namespace.
func (t Tables) each(k *host.Kernel, f func(Place) error) error {
	for _, p := range t.Places {
		if err := k.Do(p.NS, func() error { return f(p) }); err != nil {
			return fmt.Errorf("nftables%s: %w", in(p.NS), err)
		}
	}
	return nil
}

// Apply makes the tables.
func (t Tables) Apply(_ context.Context, k *host.Kernel) error {
	var made []Place
	err := k.Load("rules", func() error {
		return t.each(k, func(p Place) error {
			if err := p.reachable(); err != nil {
				return err
			}
			if err := ruleset.Add(t.table(p)); err != nil {
				return err
			}
			made = append(made, p)
			return nil
		})
	})
	if err != nil {
		return errors.Join(err, remove(k, made))
	}
	k.Implementation("filter", t.implementation())
	return nil
}

// Remove deletes the tables.
func (t Tables) Remove(_ context.Context, k *host.Kernel) error { return remove(k, t.Places) }

// remove deletes the tables of some places. They go with their namespaces.
func remove(k *host.Kernel, places []Place) error {
	var errs []error
	for _, p := range places {
		err := k.Do(p.NS, func() error { return ruleset.Delete(p.Family, name) })
		if err != nil && !errors.Is(err, nft.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// reachable says whether packets come to the place.
func (p Place) reachable() error {
	if !p.Bridged {
		return nil
	}
	_, err := sysctl.Read(callIPTables)
	if errors.Is(err, fs.ErrNotExist) {
		return &linux.UnsupportedError{
			What: "pass bridged packets to an nftables table of family inet", Missing: "br_netfilter (CONFIG_BRIDGE_NETFILTER)",
			Hint: "load the module br_netfilter, or use stateful=false", Err: err,
		}
	}
	return err
}

// implementation says whose tables do the work.
func (t Tables) implementation() string {
	var who []string
	for _, p := range t.Places {
		text := "nftables " + p.Family
		if p.Bridged {
			text += " by br_netfilter"
		}
		if !slices.Contains(who, text) {
			who = append(who, text)
		}
	}
	return "kernel (" + strings.Join(who, ", ") + ")"
}

// Verify reads the tables back.
func (t Tables) Verify(k *host.Kernel) error {
	return filter.Verify(k, t.String(), t.Places, func(p Place) string {
		return p.NS
	}, func(p Place, add func(what, want, got string)) error {
		list, err := ruleset.Compare(t.table(p))
		for _, d := range list {
			add(d.What, d.Want, d.Got)
		}
		return err
	})
}

// MeasureCost measures what changing a rule costs. Rules that are added are taken away by the numbers that they were
// given: to find those among a hundred thousand takes the kernel seconds.
func (t Tables) MeasureCost(ctx context.Context, k *host.Kernel) error {
	return filter.MeasureCost(ctx, k, remembering{t, map[int][]ruleset.Placed{}})
}

// remembering is the step that knows which rules it has added in each place.
type remembering struct {
	Tables
	placed map[int][]ruleset.Placed
}

// UpdateRule adds or removes a rule.
func (r remembering) UpdateRule(k *host.Kernel, rule filter.Rule, allow bool) error {
	return r.change(k, rule, allow, r.placed)
}

// Counters reads what let packets pass and what dropped them: one rule each.
func (t Tables) Counters(k *host.Kernel) (c filter.Counters, err error) {
	err = t.each(k, func(p Place) error {
		type counter struct {
			chain string
			n     *uint64
		}
		var counters []counter
		if len(p.Hooks) > 0 {
			counters = append(counters, counter{chainAccepted, &c.Allowed}, counter{p.deciding(), &c.Refused})
		}
		if p.Host {
			counters = append(counters, counter{chainHost, &c.Refused})
		}
		for _, of := range counters {
			rules, err := ruleset.Read(p.Family, name, of.chain)
			if err != nil {
				return err
			}
			for _, r := range rules {
				*of.n += r.Packets
			}
		}
		return nil
	})
	return c, err
}

// UpdateRule adds or removes a rule in one transaction of each table that it concerns.
func (t Tables) UpdateRule(k *host.Kernel, r filter.Rule, allow bool) error {
	return t.change(k, r, allow, nil)
}

func (t Tables) change(k *host.Kernel, r filter.Rule, allow bool, placed map[int][]ruleset.Placed) error {
	for i, p := range t.Places {
		if len(p.Hooks) == 0 || p.Of != nil && !p.concerns(r) {
			continue
		}
		c := change{Batch: ruleset.NewBatch(p.Family, name), place: p, list: t.List, allow: allow, placed: placed[i]}
		c.Echo = allow && placed != nil
		err := k.Do(p.NS, func() error {
			if err := c.write(t.Match, r); err != nil {
				return err
			}
			added, err := c.Commit()
			if placed != nil {
				placed[i] = added
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("change nftables%s: %w", in(p.NS), err)
		}
	}
	return nil
}

func in(ns string) string {
	if ns == "" {
		return ""
	}
	return " in " + ns
}

// Tracks says whether connections are tracked, see [host.Tracker].
func (t Tables) Tracks() bool { return t.List.Stateful }

// Lasting lists connections that the rules would not let begin now, see [host.Tracker].
func (t Tables) Lasting(_ *host.Kernel, tracked []conntrack.Flow) ([]string, string, error) {
	return t.List.Lasting(tracked), "", nil
}
