package ovs_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/ovs"
)

// Flows are planned one by one only if the switch does not learn.
func TestPlan(t *testing.T) {
	d := ovs.Network{}.Describe()
	for _, flows := range []string{"normal", "explicit"} {
		lab := networktest.Lab(2, 1)
		var err error
		if lab.Params, err = d.Params.Resolve("network ovs", map[string]string{"flows": flows}); err != nil {
			t.Fatal(err)
		}
		plans, _, err := network.Join(ovs.Network{}, lab)
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "plan-"+flows, plans[0].String())
	}
}
