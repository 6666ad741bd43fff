package control

import (
	"testing"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter/nftables"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/part"
)

// Of several hosts a lab tells the worst: rates are not times.
func TestWorse(t *testing.T) {
	for _, c := range []struct {
		metric string
		want   float64
	}{{"rules_load_time", 2}, {"rules_memory", 2}, {"translation_rate", 1}, {"of_a_newer_nettoll", 2}} {
		if a, b := worse(c.metric, 1, 2), worse(c.metric, 2, 1); a != c.want || b != c.want {
			t.Errorf("of 1 and 2 %s tells %g and %g, want %g", c.metric, a, b, c.want)
		}
	}
}

// Labs that load something have the machine for themselves meanwhile, others not.
func TestLoads(t *testing.T) {
	for _, c := range []struct {
		lab  experiment.Lab
		want bool
	}{
		{experiment.Lab{Network: bridge.Network{}}, false},
		{experiment.Lab{Network: bridge.Network{}, Filter: nftables.Filter{}}, true},
		{experiment.Lab{Network: nat.Network{}, Params: part.Params{"entries": "0"}}, false},
		{experiment.Lab{Network: nat.Network{}, Params: part.Params{"entries": "7"}}, true},
	} {
		if got := loads(c.lab); got != c.want {
			t.Errorf("%+v: %t, want %t", c.lab, got, c.want)
		}
	}
}
