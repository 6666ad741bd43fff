package geneve_test

import (
	"testing"

	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/tunnel/geneve"
	"github.com/nettoll/nettoll/tunnel/tunneltest"
)

func TestConformance(t *testing.T) {
	tunneltest.Conformance(t, geneve.Tunnel{}, nil, bridge.Network{}, routed.Network{}, ebpf.Network{}, nat.Network{})
	tunneltest.Conformance(t, geneve.Tunnel{}, map[string]string{"outer": "ipv6", "port": "6082", "checksum": "on"},
		bridge.Network{}, routed.Network{}, ebpf.Network{}, nat.Network{})
}
