package routed_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, routed.Network{}, nil, map[string]string{"gateway": "proxy-arp"})
}

func TestPlan(t *testing.T) {
	seed := networktest.Lab(1, 1).Seed
	mac := func(name ...string) string { return network.MAC(seed, name...) }
	for _, c := range []struct {
		gateway string
		hosts   int
	}{
		{"link-local", 2},
		{"proxy-arp", 1},
	} {
		t.Run(c.gateway, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"gateway": c.gateway}
			plans, ends, err := network.Join(routed.Network{}, lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+c.gateway, plans[0].String())
			want := network.Endpoint{
				Namespace: "src0", IPv4: netip.MustParseAddr("10.1.1.0"), IPv6: netip.MustParseAddr("fd00:10:1::1:0"),
				Link: "vsrc0", Inner: "eth0", MAC: mac("host1", "src0", "eth0"),
			}
			if diff := cmp.Diff(want, ends[0][0], cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
				t.Errorf("endpoint of src0 (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStaticNeighbours wants entries at both ends where a lab is large, and none where it is not.
func TestStaticNeighbours(t *testing.T) {
	for pairs, want := range map[int]bool{100: false, 101: true} {
		plans, _, err := routed.Network{}.Build(networktest.Lab(1, pairs))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{
			"neighbour 10.1.1.0, fd00:10:1::1:0 at ", "neighbour 169.254.1.1, fe80::ecee:eeff:feee:eeee at ",
		} {
			if got := strings.Contains(plans[0].String(), line); got != want {
				t.Errorf("%d pairs: %q is in the plan: %t, want %t", pairs, line, got, want)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	lab := networktest.Lab(1, 1)
	lab.Hosts[0].Containers[0].Name = "a-long-name-of-c"
	const want = `the name "a-long-name-of-c" of a container is too long (1 to 14 bytes)`
	if _, _, err := (routed.Network{}).Build(lab); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Build = %v, want %q", err, want)
	}
}
