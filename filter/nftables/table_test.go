package nftables

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

func rule(source, sink string, first, last uint16) filter.Rule {
	return filter.Rule{
		Source: netip.MustParseAddr(source), Sink: netip.MustParseAddr(sink), First: first, Last: last,
		SourceFirst: 30_000, SourceLast: 30_063,
	}
}

// listed has two pairs of IPv4, one of which has a port more, and one of IPv6.
func listed(decoys int, stateful bool) filter.List {
	return filter.List{Families: []string{"ipv4", "ipv6"}, Decoys: decoys, Stateful: stateful, Allowed: []filter.Rule{
		rule("10.1.1.0", "10.1.1.1", 20_000, 20_008), rule("fd00::1", "fd00::2", 20_000, 20_008),
		rule("10.1.1.0", "10.1.1.1", 53, 53), rule("10.1.1.2", "10.1.1.3", 20_010, 20_010),
	}}
}

func resolve(t *testing.T, given map[string]string) part.Params {
	p, err := Filter{}.Describe().Params.Resolve("filter nftables", given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		at     network.Point
		hosts  int
		nat    bool
		params map[string]string
		want   string
	}{
		{network.AtBridge, 1, false, nil, ""},
		{network.AtForward, 1, true, nil, ""},
		{network.AtForward, 2, true, map[string]string{filter.Stateful: "true"}, ""},
		{network.AtForward, 2, true, nil, "across hosts x hides the source container"},
		{network.InContainer, 1, false, nil, ""},
		{network.AtOpenFlow, 1, false, nil, "packets that Open vSwitch forwards do not pass nftables"},
		{network.AtTCX, 1, false, nil, "packets that eBPF redirects on tcx do not pass nftables"},
		{network.AtForward, 1, false, map[string]string{table: bridge}, "x has no bridge (use table=inet)"},
		{network.InContainer, 1, false, map[string]string{table: bridge}, "x has no bridge (use table=inet)"},
		{network.InContainer, 1, false, map[string]string{table: netdev}, "x has none (use table=inet)"},
		{network.AtForward, 1, true, map[string]string{table: netdev}, "before addresses are translated"},
		{
			network.AtForward, 2, false,
			map[string]string{table: netdev},
			"does not see packets from other hosts (use table=inet)",
		},
		{
			network.AtBridge, 1, false,
			map[string]string{table: netdev, filter.Stateful: "true"},
			"table=netdev has no connection tracking",
		},
		{
			network.AtBridge, 1, false,
			map[string]string{table: bridge, filter.Stateful: "true"},
			"use table=inet, which needs br_netfilter",
		},
		{network.AtBridge, 1, false, map[string]string{filter.Stateful: "true"}, ""},
	} {
		got := Filter{}.Refuse(filter.Where{Network: "x", Point: c.at, Hosts: c.hosts, Translated: c.nat},
			resolve(t, c.params))
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("Refuse %s, %d hosts, %v = %q, want %q", c.at, c.hosts, c.params, got, c.want)
		}
	}
}

// TestPlan says where tables stand.
func TestPlan(t *testing.T) {
	containers := []filter.Container{
		{Name: "src0", Endpoint: network.Endpoint{
			Namespace: "src0", Link: "vsrc0", IPv4: netip.MustParseAddr("10.1.1.0"), IPv6: netip.MustParseAddr("fd00::1"),
		}},
		{Name: "snk0", Endpoint: network.Endpoint{
			Namespace: "snk0", Link: "vsnk0", IPv4: netip.MustParseAddr("10.1.1.1"), IPv6: netip.MustParseAddr("fd00::2"),
		}},
	}
	var all strings.Builder
	for _, c := range []struct {
		at     network.Point
		hosts  int
		params map[string]string
	}{
		{network.AtBridge, 1, nil},
		{network.AtBridge, 2, map[string]string{match: set}},
		{network.AtBridge, 1, map[string]string{filter.Stateful: "true"}},
		{network.AtForward, 2, map[string]string{match: chains}},
		{network.AtForward, 1, map[string]string{table: netdev}},
		{network.InContainer, 1, nil},
	} {
		site := filter.Site{
			Point: c.at, Host: 1, Hosts: c.hosts, Containers: containers, Params: resolve(t, c.params),
			List: listed(7, c.params[filter.Stateful] == "true"),
		}
		steps, err := Filter{}.Build(site)
		if err != nil {
			t.Errorf("%s: %v", c.at, err)
			continue
		}
		fmt.Fprintf(&all, "%s, %d hosts, %v\n%s", c.at, c.hosts, c.params, host.Plan{Steps: steps})
	}
	golden.Compare(t, "plan", all.String())
	if _, err := (Filter{}).Build(filter.Site{
		Point: network.AtTCX, Host: 1, Hosts: 1, Params: resolve(t, nil),
	}); err == nil {
		t.Error("it is built where it is refused")
	}
	if _, err := (Filter{}).Build(filter.Site{
		Point: network.AtForward, Host: 1, Hosts: 1, Params: resolve(t, map[string]string{table: netdev}),
		Containers: make([]filter.Container, 1),
	}); err == nil {
		t.Error("it is built at a link that is none")
	}
}

// TestSize wants as many rules or elements as there are decoy rules, and those of the pairs.
func TestSize(t *testing.T) {
	for _, c := range []struct {
		match       string
		stateful    bool
		v4, v6      int // rules of the chains
		set4, set6  int // elements
		chainsOfMap int
	}{
		{linear, true, 100 + 2*3 + 2, 100 + 3, 0, 0, 0},
		{linear, false, 100 + 2*8 + 4, 100 + 8, 0, 0, 0},
		{set, true, 3, 3, 100 + 10 + 1, 100 + 9, 3},
		{set, false, 8, 8, 100 + 10 + 1, 100 + 9, 3},
		{chains, true, 1, 1, 100 + 2, 100 + 1, 2*100 + 2 + 1},
		{chains, false, 1, 1, 100 + 4, 100 + 2, 2*100 + 4 + 2},
	} {
		tables := Tables{Match: c.match, List: listed(100, c.stateful)}
		got := tables.table(Place{Family: inet, Hooks: []string{hookForward}})
		rules, elements := map[string]int{}, map[string]int{}
		for _, chain := range got.Chains {
			for range chain.Rules {
				rules[chain.Name]++
			}
		}
		for _, s := range got.Sets {
			for range s.Elements {
				elements[s.Name]++
			}
			if s.Size < elements[s.Name]+64 {
				t.Errorf("%s: there is room for %d elements in %s, which has %d", c.match, s.Size, s.Name, elements[s.Name])
			}
		}
		want := []int{c.v4, c.v6, c.set4, c.set6, c.chainsOfMap}
		have := []int{rules["ipv4"], rules["ipv6"], elements["allowed-ipv4"], elements["allowed-ipv6"], len(got.Chains) - 4}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s, stateful %t: rules and elements of each family, chains (-want +got):\n%s", c.match, c.stateful, diff)
		}
	}
}

// TestOrder wants decoy rules before the pairs, or after.
func TestOrder(t *testing.T) {
	v := versionOf(false)
	for _, after := range []bool{false, true} {
		l := listed(3, true)
		l.After = after
		first := v.rules(l.Allowed[0], true, true)[0].Hash()
		at := -1
		i := 0
		for r := range v.linear(l) {
			if r.Hash() == first {
				at = i
			}
			i++
		}
		if want := map[bool]int{false: 3, true: 0}[after]; at != want {
			t.Errorf("decoy rules after %t: the pair's first rule is number %d, want %d", after, at, want)
		}
	}
}

// machine is a kernel in a namespace of its own.
func machine(t testing.TB) *host.Kernel {
	m := testnet.New(t)
	var k *host.Kernel
	testnet.Skip(t, m.Do(func() (err error) {
		k, err = host.NewKernel(host.KernelConfig{Dir: m.Dir})
		return err
	}))
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// TestChange adds rules for pairs that are listed and for one that is not, and takes them away again.
func TestChange(t *testing.T) {
	for _, match := range []string{linear, set, chains} {
		for _, stateful := range []bool{false, true} {
			t.Run(fmt.Sprint(match, stateful), func(t *testing.T) {
				k := machine(t)
				tables := Tables{Match: match, List: listed(20, stateful), Places: []Place{
					{Family: inet, Hooks: []string{hookForward}},
					{Family: bridge, Hooks: []string{hookForward}, Of: []netip.Addr{
						netip.MustParseAddr("10.1.1.0"), netip.MustParseAddr("fd00::7"),
					}},
				}}
				if stateful { // a bridge does not know connections
					tables.Places = tables.Places[:1]
				}
				testnet.Skip(t, tables.Apply(t.Context(), k))
				want := "kernel (nftables inet, nftables bridge)"
				if stateful {
					want = "kernel (nftables inet)"
				}
				if got := k.Report().Implementations["filter"]; got != want {
					t.Errorf("who does the work: %q, want %q", got, want)
				}
				for _, r := range []filter.Rule{
					rule("10.1.1.0", "10.1.1.1", 20_009, 20_009), rule("10.1.1.0", "10.1.1.1", 20_007, 20_012),
					rule("10.1.1.7", "10.1.1.8", 1, 3), rule("fd00::7", "fd00::8", 1, 1),
				} {
					if err := tables.UpdateRule(k, r, true); err != nil {
						t.Fatalf("add %v: %v", r, err)
					}
					if _, ok := errors.AsType[*host.DriftError](tables.Verify(k)); !ok {
						t.Errorf("%v was added, and that is no drift", r)
					}
					if err := tables.UpdateRule(k, r, false); err != nil {
						t.Fatalf("remove %v: %v", r, err)
					}
					if err := tables.Verify(k); err != nil {
						t.Errorf("%v was added and removed: %v", r, err)
					}
				}
				if match != set {
					if err := tables.UpdateRule(k, rule("10.1.1.0", "10.1.1.1", 7, 7), false); err == nil {
						t.Error("a rule was removed that nobody has added")
					}
				}
				if err := errors.Join(tables.Remove(t.Context(), k), tables.Remove(t.Context(), k)); err != nil {
					t.Error(err)
				}
				if _, ok := errors.AsType[*host.DriftError](tables.Verify(k)); !ok {
					t.Error("the tables are gone, and that is no drift")
				}
			})
		}
	}
}

// TestApplyFails wants nothing to stay of what was made before one failed.
func TestApplyFails(t *testing.T) {
	k := machine(t)
	tables := Tables{Match: linear, List: listed(1, false), Places: []Place{
		{Family: bridge, Hooks: []string{hookForward}}, {NS: "none", Family: inet, Hooks: []string{hookForward}},
	}}
	if err := tables.Apply(t.Context(), k); err == nil || !strings.Contains(err.Error(), "nftables in none: ") {
		t.Errorf("Apply where there is no namespace = %v", err)
	}
	if err := k.Do("", func() error {
		rules, err := ruleset.Read(bridge, name, hookForward)
		if err == nil && len(rules) > 0 {
			t.Error("the first table stays")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
