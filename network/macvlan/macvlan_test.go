package macvlan_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, macvlan.Network{}, nil, map[string]string{"mode": "private"},
		map[string]string{"mode": "vepa"}, map[string]string{"mode": "passthru"})
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  string
		hosts int
		ends  [][]network.Endpoint
	}{
		{"across hosts", "bridge", 2, [][]network.Endpoint{
			{end("src0", "198.18.1.0", "fd00:198:18::1:0")}, {end("snk0", "198.18.2.0", "fd00:198:18::2:0")},
		}},
		{"on one host", "bridge", 1, [][]network.Endpoint{
			{end("src0", "198.18.1.0", "fd00:198:18::1:0"), end("snk0", "198.18.1.1", "fd00:198:18::1:1")},
		}},
		{"vepa", "vepa", 1, [][]network.Endpoint{
			{end("src0", "198.18.1.0", "fd00:198:18::1:0"), end("snk0", "198.18.1.1", "fd00:198:18::1:1")},
		}},
		{"passthru", "passthru", 1, [][]network.Endpoint{
			{end("src0", "198.18.1.0", "fd00:198:18::1:0"), end("snk0", "198.18.1.1", "fd00:198:18::1:1")},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"mode": c.mode}
			plans, ends, err := macvlan.Network{}.Build(lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+c.name, plans[0].String())
			if diff := cmp.Diff(c.ends, ends, cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
		})
	}
}

func end(name, v4, v6 string) network.Endpoint {
	return network.Endpoint{Namespace: name, IPv4: netip.MustParseAddr(v4), IPv6: netip.MustParseAddr(v6), Inner: "eth0"}
}

func TestLimits(t *testing.T) {
	containers := networktest.Lab(1, (network.MaxSegmentContainers+2)/2)
	for _, c := range []struct {
		name string
		lab  network.Lab
		want string
	}{
		{"hosts", networktest.Lab(17, 1), "17 hosts, but the address range of the underlay has room for the containers of 16"},
		{"containers", containers, "host 1: 3842 containers, but the address range of the underlay has room for 3840"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := (macvlan.Network{}).Build(c.lab); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q", err, c.want)
			}
		})
	}
}

// TestExclude wants containers that do not reach each other not to be paired, and no networks that Docker does not make.
func TestExclude(t *testing.T) {
	for _, c := range []struct {
		mode, by string
		hosts    int
		want     bool
	}{
		{"private", "nettoll", 1, true},
		{"private", "nettoll", 2, false},
		{"vepa", "docker", 1, false},
		{"bridge", "podman", 1, false},
		{"passthru", "nettoll", 1, false},
		{"passthru", "docker", 1, true},
		{"passthru", "docker", 2, false},
		{"passthru", "podman", 1, false},
	} {
		got := (macvlan.Network{}).Exclude(c.hosts, part.Params{"mode": c.mode, "by": c.by})
		if got != "" != c.want {
			t.Errorf("mode %s by %s on %d hosts: %q", c.mode, c.by, c.hosts, got)
		}
	}
}

// TestExcludePairs wants no second container on a host of whose containers each would have a network of Docker.
func TestExcludePairs(t *testing.T) {
	for _, c := range []struct {
		mode, by string
		pairs    int
		want     bool
	}{
		{"passthru", "docker", 1, false},
		{"passthru", "docker", 2, true},
		{"passthru", "nettoll", 2, false},
		{"passthru", "podman", 2, false},
		{"bridge", "docker", 2, false},
	} {
		got := (macvlan.Network{}).ExcludePairs(c.pairs, part.Params{"mode": c.mode, "by": c.by})
		if got != "" != c.want {
			t.Errorf("mode %s by %s with %d pairs: %q", c.mode, c.by, c.pairs, got)
		}
	}
}

// TestPorts wants a switch of one host not to be given more links than it has ports.
func TestPorts(t *testing.T) {
	lab := networktest.Lab(1, 512)
	lab.Params = part.Params{"mode": "passthru"}
	const want = "host 1: 1024 containers, but a bridge has at most 1023 ports"
	if _, _, err := (macvlan.Network{}).Build(lab); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Build = %v, want %q", err, want)
	}
}
