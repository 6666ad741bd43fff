package control

import (
	"testing"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/nftables"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/stack"
)

// Of several hosts a lab tells the worst: rates are not times.
func TestWorse(t *testing.T) {
	for _, c := range []struct {
		metric string
		want   float64
	}{{"rules_load_time", 2}, {"rules_memory", 2}, {"translation_rate", 1}, {"of_a_newer_nettoll", 2}} {
		m, _ := measure.Version2().Lookup(c.metric)
		if a, b := worse(m, 1, 2), worse(m, 2, 1); a != c.want || b != c.want {
			t.Errorf("of 1 and 2 %s tells %g and %g, want %g", c.metric, a, b, c.want)
		}
	}
}

// Labs that load something have the machine for themselves meanwhile, others not.
func TestLoads(t *testing.T) {
	kinds := stack.Kinds{
		network.Kind{bridge.Network{}, nat.Network{}},
		filter.Kind{nftables.Filter{}},
		runtime.Kind{netns.Runtime{}},
	}
	for _, c := range []struct {
		stack string
		want  bool
	}{
		{"bridge", false},
		{"bridge+nftables", true},
		{"nat", false},
		{"nat(entries=7)", true},
	} {
		made, err := kinds.Parse(c.stack)
		if err != nil {
			t.Fatal(err)
		}
		if got := loads(experiment.Lab{Stack: made}); got != c.want {
			t.Errorf("%s: %t, want %t", c.stack, got, c.want)
		}
	}
}
