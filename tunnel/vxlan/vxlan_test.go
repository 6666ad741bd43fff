package vxlan_test

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
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
	testnet.NotWithout(t)
	tunneltest.Conformance(t, vxlan.Tunnel{}, nil, bridge.Network{}, routed.Network{}, ebpf.Network{}, nat.Network{},
		hostnetwork.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"outer": "ipv6", "port": "8472"}, bridge.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"peers": "routes"}, bridge.Network{}, ebpf.Network{},
		nat.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"peers": "routes", "outer": "ipv6", "checksum": "on"},
		routed.Network{}, ebpf.Network{})
}

// Geneve is tried by Open vSwitch in full: its ports of the one differ from those of the other by their type alone.
func TestSwitch(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	given := map[string]string{"impl": "ovs"}
	tunneltest.Brief(t, vxlan.Tunnel{}, given, bridge.Network{})
	networktest.CheckCarried(t, routed.Network{}, carriertest.Choose(t, tunnel.Kind{vxlan.Tunnel{}}, given),
		"packets, 2 hosts, 1 pairs", "way, 2 hosts")
}

// TestRoutes wants to be told that Open vSwitch takes nothing from routes, whichever part is asked.
func TestRoutes(t *testing.T) {
	s := carriertest.Choose(t, tunnel.Kind{vxlan.Tunnel{}}, map[string]string{"peers": "routes", "impl": "ovs"})
	_, composed := network.Compose(networktest.Lab(2, 1), s)
	for _, err := range []error{composed, vxlan.Tunnel{}.Check(s[0].Params)} {
		if err == nil || !strings.Contains(err.Error(), "(hint: leave peers at fdb)") {
			t.Errorf("peers=routes with impl=ovs: %v, want an error with a hint", err)
		}
	}
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
