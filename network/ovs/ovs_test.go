package ovs_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/ovs"
)

func TestConformance(t *testing.T) {
	if testnet.Guest() { // which has the kernel's datapath, and is slow
		networktest.Check(t, ovs.Network{}, map[string]string{"datapath": "kernel"}, "packets, 1 hosts, 1 pairs",
			"packets, 2 hosts, 1 pairs", "path, 1 hosts", "path, 2 hosts")
		return
	}
	networktest.Conformance(t, ovs.Network{}, nil, map[string]string{"flows": "explicit"})
}
