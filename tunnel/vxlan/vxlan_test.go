package vxlan_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	hostnetwork "github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/tunneltest"
	"github.com/nettoll/nettoll/tunnel/vxlan"
)

// By each way to know its peers, and in each family outside, with networks that differ most in how they hand packets to
// a tunnel: a bridge's host routes them, and eBPF redirects them to a link that is or is not an external one.
func TestConformance(t *testing.T) {
	tunneltest.Conformance(t, vxlan.Tunnel{}, nil, bridge.Network{}, routed.Network{}, ebpf.Network{}, nat.Network{},
		hostnetwork.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"outer": "ipv6", "port": "8472"}, bridge.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"peers": "routes"}, bridge.Network{}, ebpf.Network{},
		nat.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"peers": "routes", "outer": "ipv6", "checksum": "on"},
		routed.Network{}, ebpf.Network{})
}

// TestPlan shows what a host of three does.
func TestPlan(t *testing.T) {
	for _, peers := range []string{"fdb", "routes"} {
		t.Run(peers, func(t *testing.T) {
			kinds := stack.Kinds{tunnel.Kind{vxlan.Tunnel{}}}
			chosen, err := kinds.Choose("tunnel", "vxlan", map[string]string{"peers": peers})
			if err != nil {
				t.Fatal(err)
			}
			lab, err := network.Compose(networktest.Lab(3, 1), stack.Stack{chosen})
			if err != nil {
				t.Fatal(err)
			}
			plans, _, err := network.Join(bridge.Network{}, lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+peers, plans[0].String())
		})
	}
}

// TestPort wants a port to be one.
func TestPort(t *testing.T) {
	for port, valid := range map[string]bool{"1": true, "8472": true, "65535": true, "0": false, "65536": false, "x": false} {
		kinds := stack.Kinds{tunnel.Kind{vxlan.Tunnel{}}}
		if _, err := kinds.Choose("tunnel", "vxlan", map[string]string{"port": port}); (err == nil) != valid {
			t.Errorf("port %s: %v", port, err)
		}
	}
}
