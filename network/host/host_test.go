package host_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/networktest"
)

func TestConformance(t *testing.T) { networktest.Conformance(t, host.Network{}) }

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts int
		ends  [][]network.Endpoint
	}{
		{
			name: "loopback", hosts: 1,
			ends: [][]network.Endpoint{{end("10.1.0.1", "fd00:10:1::1"), end("10.1.0.1", "fd00:10:1::1")}},
		},
		{
			name: "underlay", hosts: 2,
			ends: [][]network.Endpoint{{end("198.18.0.1", "fd00:198:18::1")}, {end("198.18.0.2", "fd00:198:18::2")}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			plans, ends, err := host.Network{}.Build(networktest.Lab(c.hosts, 1))
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range plans {
				golden.Compare(t, fmt.Sprintf("plan-%s-host%d", c.name, i+1), p.String())
			}
			if diff := cmp.Diff(c.ends, ends, cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
		})
	}
}

func end(v4, v6 string) network.Endpoint {
	return network.Endpoint{IPv4: netip.MustParseAddr(v4), IPv6: netip.MustParseAddr(v6)}
}
