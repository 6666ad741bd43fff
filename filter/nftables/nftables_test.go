package nftables

import (
	"errors"
	"fmt"
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
	return filtertest.Run(k, ns, append([]string{"nft"}, args...)...)
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
						for e := range v.elements(r) {
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
			{Text: "no rules where packets come", Do: by("flush chain TABLE CHAIN")},
			{Text: "no rules where packets are let through", Do: by("flush chain TABLE accepted")},
			{Text: "all of a family is let through", Do: by("insert rule TABLE ipv6 accept")},
			{Text: "nothing to look into", Do: func(k *host.Kernel, s filter.Site) error {
				t, p := step(s)
				kind := map[string]string{set: "set", chains: "map"}[t.Match]
				if kind == "" {
					return errors.ErrUnsupported
				}
				_, err := command(k, p.NS, "flush", kind, p.Family, name, "allowed-ipv4")
				return err
			}},
			{Text: "a port 0, which is no port of a list", Do: func(k *host.Kernel, s filter.Site) error {
				t, p := step(s)
				if t.Match != set {
					return errors.ErrUnsupported
				}
				r := t.List.Allowed[0]
				_, err := command(k, p.NS, "add", "element", p.Family, name, versionOf(r.Sink.Is6()).set(),
					fmt.Sprintf("{ %s . %s . 0 }", r.Source, r.Sink))
				return err
			}},
			{Text: "the host is reached", Do: func(k *host.Kernel, s filter.Site) error {
				t, _ := step(s)
				for _, p := range t.Places {
					if p.Host {
						_, err := command(k, p.NS, "insert", "rule", p.Family, name, chainHost, "tcp", "dport", "22", "accept")
						return err
					}
				}
				return errors.ErrUnsupported
			}},
			{Text: "nothing stands before the host", Do: func(k *host.Kernel, s filter.Site) error {
				t, _ := step(s)
				for _, p := range t.Places {
					if p.Host {
						_, err := command(k, p.NS, "chain", p.Family, name, chainHost, "{ policy accept ; }")
						if err == nil {
							_, err = command(k, p.NS, "flush", "chain", p.Family, name, chainHost)
						}
						return err
					}
				}
				return errors.ErrUnsupported
			}},
			{Text: "no pairs", Do: func(k *host.Kernel, s filter.Site) error {
				t, p := step(s)
				if t.Match != set {
					return errors.ErrUnsupported
				}
				_, err := command(k, p.NS, "flush", "set", p.Family, name, "pairs-ipv4")
				return err
			}},
			{Text: "another rule behind all others", Do: by("add rule TABLE CHAIN counter")},
			{Text: "another policy", Do: by("chain TABLE CHAIN { policy accept ; }")},
			{Text: "another chain", Do: by("add chain TABLE other")},
			{Text: "another set", Do: by("add set TABLE other { type ipv4_addr ; }")},
			{Text: "a table that sleeps", Do: by("add table TABLE { flags dormant ; }")},
			{Text: "no table", Do: by("delete table TABLE")},
		},
	}
}

// TestConformance runs the suite on every way of matching in every family of table, both with connections and without
// where that is possible. Two of them run at a time.
func TestConformance(t *testing.T) {
	subject := subject()
	over := filtertest.On{Network: bridgenetwork.Network{}}
	two := filtertest.On{Network: bridgenetwork.Network{}, Hosts: 2}
	translated := filtertest.On{Network: nat.Network{}, Params: map[string]string{"hairpin": "true"}}
	inside, routes := filtertest.On{Network: macvlan.Network{}}, filtertest.On{Network: routed.Network{}}
	for _, c := range []struct {
		on     filtertest.On
		params map[string]string
	}{
		{over, map[string]string{}},
		{over, map[string]string{match: set, filter.Decoys: "after"}},
		{two, map[string]string{match: chains}},
		{over, map[string]string{match: chains, filter.Stateful: "true"}},
		{two, map[string]string{match: set, filter.Stateful: "true", filter.Antispoof: "true"}},
		{over, map[string]string{match: linear, table: inet, filter.Decoys: "after"}},
		{over, map[string]string{match: chains, table: netdev}},
		{routes, map[string]string{match: linear, table: netdev}},
		{over, map[string]string{match: set, filter.Antispoof: "true"}},
		{translated, map[string]string{match: linear, filter.Stateful: "true"}},
		{inside, map[string]string{match: set}},
		{inside, map[string]string{match: chains, filter.Stateful: "true"}},
	} {
		c.params[filter.Rules] = "5"
		t.Run(c.on.Network.Describe().Name, func(t *testing.T) {
			t.Parallel()
			filtertest.Conformance(t, subject, []filtertest.On{c.on}, c.params)
		})
	}
}
