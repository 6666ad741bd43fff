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

func TestConformance(t *testing.T) {
	for _, given := range []map[string]string{
		nil,
		{"plugin": "bridge", "chain": "bandwidth+tuning"},
		{"plugin": "bridge", "chain": "portmap+firewall"},
		{"plugin": "ptp"},
		{"plugin": "ptp", "chain": "portmap+firewall+bandwidth+tuning"},
		{"plugin": "macvlan"},
		{"plugin": "ipvlan"},
		{"plugin": "host-device", "chain": "tuning"},
		{"plugin": "vlan"},
	} {
		params, err := cni.Network{}.Describe().Params.Resolve("network cni", given)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(cni.Network{}.Describe().Params.Short("cni", params), func(t *testing.T) {
			needs(t, params)
			networktest.Conformance(t, cni.Network{}, given)
		})
	}
}
