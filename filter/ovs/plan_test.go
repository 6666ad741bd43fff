package ovs_test

import (
	"testing"

	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/filter/ovs"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	switched "github.com/nettoll/nettoll/network/ovs"
)

func TestPlan(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"stateless": {"rules": "7"}, "stateful": {"stateful": "true", "antispoof": "true"},
	} {
		on := filtertest.On{Network: switched.Network{}, Hosts: 2}
		golden.Compare(t, "plan-"+name, filtertest.Plan(t, ovs.Filter{}, on, given).String())
	}
}
