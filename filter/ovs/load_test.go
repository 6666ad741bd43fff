package ovs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/filter/ovs"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	parent "github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	network "github.com/nettoll/nettoll/network/ovs"
)

// raise builds a lab of one host and a pair, and applies the filter for one family.
func raise(t *testing.T, given map[string]string) (*networktest.Machine, filter.Site, filter.Step) {
	t.Helper()
	m, site, step := bare(t, given)
	if err := m.Stack.Apply(t.Context(), m.Kernel, host.Plan{Steps: []host.Step{step}}); err != nil {
		testnet.Skip(t, err)
	}
	return m, site, step
}

// bare builds the lab, and the step of the filter, which is not applied.
func bare(t *testing.T, given map[string]string) (*networktest.Machine, filter.Site, filter.Step) {
	t.Helper()
	params, err := ovs.Filter{}.Describe().Params.Resolve("filter ovs", given)
	if err != nil {
		t.Fatal(err)
	}
	lab := filtertest.Lab(1, 1)
	b, err := networktest.MakeBed(t, network.Network{}, lab)
	if err != nil {
		testnet.Skip(t, err)
	}
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Apply(t); err != nil {
		testnet.Skip(t, err)
	}
	pair := parent.Pair{Source: parent.Spot{Container: 0}, Sink: parent.Spot{Container: 1}}
	site := filter.Sites(&parent.Site{Lab: lab, Endpoints: b.Ends, Pairs: []parent.Pair{pair}, Families: []string{"ipv4"}},
		parent.AtOpenFlow, parent.Bridge, params)[0]
	steps, err := ovs.Filter{}.Build(site)
	if err != nil {
		t.Fatal(err)
	}
	return b.Hosts[0], site, steps[0].(filter.Step)
}

// As many decoy rules as there can be are loaded, and one that is deleted is missed.
func TestMany(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	// of the most there can be it takes a quarter of a minute: once by hand, with filter.MaxRules
	for _, rules := range []int{10_000} {
		t.Run(fmt.Sprint(rules), func(t *testing.T) {
			m, _, step := raise(t, map[string]string{"rules": fmt.Sprint(rules)})
			report := m.Kernel.Report()
			t.Logf("loaded in %.3f s, %.0f bytes each", report.Metrics["rules_load_time"],
				report.Metrics["rules_memory"]/float64(rules))
			if err := m.Stack.Verify(t.Context(), m.Kernel); err != nil {
				t.Fatal(err)
			}
			r := filter.Decoy(rules/2, false)
			if err := ofctl(m.Kernel, "del-flows", fmt.Sprintf("ip,nw_src=%s,nw_dst=%s", r.Source, r.Sink)); err != nil {
				t.Fatal(err)
			}
			err := m.Stack.Verify(t.Context(), m.Kernel)
			if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), r.Source.String()) {
				t.Errorf("Verify = %v, want the missing decoy rule", err)
			}
			if _, err := step.Counters(m.Kernel); err != nil {
				t.Error(err)
			}
		})
	}
}

// Decoys stand above or below the flows of pairs, and the switch keeps to it.
func TestPlace(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	for place, want := range map[string]string{"before": "priority=300", "after": "priority=100"} {
		m, _, _ := raise(t, map[string]string{"rules": "1", "fillers": place})
		flows, err := tool(m.Kernel, []string{"dump-flows"})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(flows) {
			found = found || strings.Contains(line, "nw_src="+filter.Decoy(0, false).Source.String()+",") &&
				strings.Contains(line, want)
		}
		if !found {
			t.Errorf("fillers=%s: no decoy rule with %s among\n%s", place, want, flows)
		}
	}
}

// Where the daemon has died, Verify says so and nothing is left to undo.
func TestDeath(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	m, _, step := raise(t, nil)
	kill(t, m.Kernel)
	if err := step.Verify(m.Kernel); !isDrift(err) {
		t.Errorf("Verify = %v, want a drift", err)
	}
	if err := m.Stack.Undo(t.Context(), m.Kernel); err != nil {
		t.Error(err)
	}
}

func isDrift(err error) bool {
	_, ok := errors.AsType[*host.DriftError](err)
	return ok
}

func TestRefuse(t *testing.T) {
	for _, at := range []parent.Point{
		parent.AtBridge, parent.AtForward, parent.InContainer, parent.AtTCX, parent.AtOpenFlow,
	} {
		reason := ovs.Filter{}.Refuse(filter.Where{Network: "bridge", Point: at, Hosts: 1}, nil)
		if (reason == "") != (at == parent.AtOpenFlow) {
			t.Errorf("%s it is refused because %q", at, reason)
		}
	}
	if _, err := (ovs.Filter{}).Build(filter.Site{Point: parent.AtBridge, Bridge: "br0"}); err == nil {
		t.Error("it is built at a bridge that is no Open vSwitch")
	}
}
