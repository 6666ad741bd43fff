package ipip_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/ipip"
)

// Each of three hosts has a plan for the other two.
func TestPlan(t *testing.T) {
	for _, given := range []map[string]string{
		{"impl": "kernel"},
		{"impl": "ebpf", "outer": "ipv6"},
	} {
		between := carriertest.Choose(t, tunnel.Kind{ipip.Tunnel{}}, given)
		golden.Compare(t, "plan-"+given["impl"], carriertest.Plan(t, bridge.Network{}, between).String())
	}
}
