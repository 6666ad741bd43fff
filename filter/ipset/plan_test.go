package ipset_test

import (
	"testing"

	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/filter/ipset"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network/bridge"
)

func TestPlan(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"stateless": {"rules": "7"}, "stateful": {"stateful": "true", "antispoof": "true"},
	} {
		on := filtertest.On{Network: bridge.Network{}, Hosts: 2}
		golden.Compare(t, "plan-"+name, filtertest.Plan(t, ipset.Filter{}, on, given).String())
	}
}
