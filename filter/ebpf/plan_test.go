package ebpf

import (
	"testing"

	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network/bridge"
	networkebpf "github.com/nettoll/nettoll/network/ebpf"
)

func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		on    filtertest.On
		given map[string]string
	}{
		"ebpf":   {filtertest.On{Network: networkebpf.Network{}, Hosts: 2}, map[string]string{"rules": "7"}},
		"bridge": {filtertest.On{Network: bridge.Network{}}, map[string]string{"stateful": "true", "antispoof": "true"}},
	} {
		golden.Compare(t, "plan-"+name, filtertest.Plan(t, Filter{}, c.on, c.given).String())
	}
}
