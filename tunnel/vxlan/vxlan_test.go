package vxlan_test

import (
	"testing"

	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/tunnel/tunneltest"
	"github.com/nettoll/nettoll/tunnel/vxlan"
)

func TestConformance(t *testing.T) {
	tunneltest.Conformance(t, vxlan.Tunnel{}, nil, bridge.Network{}, routed.Network{}, ebpf.Network{}, nat.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"outer": "ipv6", "port": "8472"}, bridge.Network{},
		routed.Network{}, ebpf.Network{}, nat.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"peers": "routes"}, bridge.Network{}, routed.Network{},
		ebpf.Network{}, nat.Network{})
	tunneltest.Conformance(t, vxlan.Tunnel{}, map[string]string{"peers": "routes", "outer": "ipv6", "checksum": "on"},
		bridge.Network{}, routed.Network{}, ebpf.Network{}, nat.Network{})
}
