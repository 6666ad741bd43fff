package cni_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/cni"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

// needs skips a test where the plugins, or what the kernel has to have for them, are missing.
func needs(t *testing.T, p part.Params) {
	t.Helper()
	testnet.Skip(t, cni.Network{}.Check(p))
}

// CI runs the suite on the plugin bridge, and packets and removal on the others, which have turns.
func TestConformance(t *testing.T) {
	for i, given := range []map[string]string{
		nil,
		{"plugin": "ptp", "chain": "portmap+firewall+bandwidth+tuning"},
		{"plugin": "macvlan"},
		{"plugin": "ipvlan"},
		{"plugin": "host-device", "chain": "tuning"},
		{"plugin": "vlan"},
	} {
		p := params(t, given)
		t.Run(cni.Network{}.Describe().Params.Short("cni", p), func(t *testing.T) {
			needs(t, p)
			if i > 0 {
				testnet.Turn(t)
			}
			if i > 0 && !testnet.IsSlow() {
				networktest.Check(t, cni.Network{}, given, "packets, 2 hosts, 3 pairs", "undo from data, 2 hosts")
				return
			}
			networktest.Conformance(t, cni.Network{}, given)
		})
	}
}

// Chains of other plugins carry packets, too, and are removed.
func TestChains(t *testing.T) {
	testnet.Slow(t, "other chains and the plugins by themselves; TestConformance has one of all")
	for _, given := range []map[string]string{
		{"chain": "portmap+firewall+tuning"}, {"chain": "bandwidth"}, {"plugin": "ptp"}, {"plugin": "macvlan", "chain": "tuning"},
	} {
		needs(t, params(t, given))
		networktest.Check(t, cni.Network{}, given, "packets, 2 hosts, 3 pairs", "undo from data, 2 hosts")
	}
}
