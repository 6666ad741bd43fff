package nftables

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	bridgenetwork "github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
)

// command runs nft(8), which reads what this package writes.
func command(k *host.Kernel, ns string, args ...string) (out string, err error) {
	err = k.Do(ns, func() error {
		b, err := exec.Command("nft", args...).CombinedOutput()
		if out = string(b); err != nil {
			return fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	})
	return out, err
}

// step is what stands on the host of a site.
func step(s filter.Site) (Tables, Place) {
	steps, err := Filter{}.Build(s)
	if err != nil {
		panic(err)
	}
	t := steps[0].(Tables)
	return t, t.Places[0]
}

func subject() filtertest.Subject {
	by := func(args ...string) func(k *host.Kernel, s filter.Site) error {
		return func(k *host.Kernel, s filter.Site) error {
			_, p := step(s)
			text := strings.NewReplacer("TABLE", p.Family+" "+name, "CHAIN", p.hooked()[0].Name).Replace(strings.Join(args, " "))
			_, err := command(k, p.NS, text)
			return err
		}
	}
	return filtertest.Subject{
		Filter: Filter{},
		State:  func(k *host.Kernel, ns string) (string, error) { return command(k, ns, "-s", "list", "ruleset") },
		Tampers: []filtertest.Tamper{
			{Text: "remove one of a pair's rules, or its element", Do: func(k *host.Kernel, s filter.Site) error {
				t, p := step(s)
				r := t.List.Allowed[0]
				v := versionOf(r.Sink.Is6())
				return k.Do(p.NS, func() error {
					c := change{Batch: ruleset.NewBatch(p.Family, name), place: p}
					switch t.Match {
					case linear:
						if err := c.rules(v.name(), v.rules(r, t.List.Stateful, true)[:1]); err != nil {
							return err
						}
					case set:
						for e := range v.elements(r, false) {
							c.elements(v.set(), one(e))
							break
						}
					case chains:
						c.elements(v.set(), one(way{from: r.Source, to: r.Sink}.element(v)))
					}
					_, err := c.Commit()
					return err
				})
			}},
			{Text: "let everything pass", Do: by("insert rule TABLE CHAIN accept")},
			{Text: "another rule behind all others", Do: by("add rule TABLE CHAIN counter")},
			{Text: "another policy", Do: by("chain TABLE CHAIN { policy accept ; }")},
			{Text: "another chain", Do: by("add chain TABLE other")},
			{Text: "another set", Do: by("add set TABLE other { type ipv4_addr ; }")},
			{Text: "a table that sleeps", Do: by("add table TABLE { flags dormant ; }")},
			{Text: "no table", Do: by("delete table TABLE")},
		},
	}
}

// TestConformance runs the suite on every way of matching in every family of table, both with connections and without where that is possible. Two of them run at a time.
func TestConformance(t *testing.T) {
	all, few := subject(), subject()
	few.Tampers = few.Tampers[:2]
	over := filtertest.On{Network: bridgenetwork.Network{}}
	two := filtertest.On{Network: bridgenetwork.Network{}, Hosts: 2}
	translated := filtertest.On{Network: nat.Network{}, Params: map[string]string{"hairpin": "true"}}
	inside, routes := filtertest.On{Network: macvlan.Network{}}, filtertest.On{Network: routed.Network{}}
	for _, c := range []struct {
		subject filtertest.Subject
		on      filtertest.On
		params  map[string]string
	}{
		{all, over, map[string]string{}},
		{few, over, map[string]string{match: set, filter.Fillers: "after"}},
		{few, two, map[string]string{match: chains}},
		{few, over, map[string]string{match: chains, filter.Stateful: "true"}},
		{few, two, map[string]string{match: set, filter.Stateful: "true"}},
		{few, over, map[string]string{match: linear, table: inet, filter.Fillers: "after"}},
		{few, over, map[string]string{match: chains, table: netdev}},
		{few, routes, map[string]string{match: linear, table: netdev}},
		{few, translated, map[string]string{match: linear, filter.Stateful: "true"}},
		{few, inside, map[string]string{match: set}},
		{few, inside, map[string]string{match: chains, filter.Stateful: "true"}},
	} {
		c.params[filter.Rules] = "5"
		t.Run(c.on.Network.Describe().Name, func(t *testing.T) {
			t.Parallel()
			filtertest.Conformance(t, c.subject, []filtertest.On{c.on}, c.params)
		})
	}
}
