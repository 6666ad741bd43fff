package nat_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, nat.Network{}, nil, map[string]string{"hairpin": "true", "entries": "1000"})
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name    string
		hosts   int
		hairpin string
		ends    []network.Endpoint
	}{
		{"across hosts", 2, "false", []network.Endpoint{
			end("src0", "10.1.1.0", "fd00:10:1::1:0", "198.18.0.1", "fd00:198:18::1"),
		}},
		{"hairpin", 1, "true", []network.Endpoint{
			end("src0", "10.1.1.0", "fd00:10:1::1:0", "10.1.0.1", "fd00:10:1::1"),
			end("snk0", "10.1.1.1", "fd00:10:1::1:1", "10.1.0.1", "fd00:10:1::1"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"hairpin": c.hairpin}
			plans, ends, err := network.Join(nat.Network{}, lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+c.name, plans[0].String())
			if diff := cmp.Diff(c.ends, ends[0], cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
				t.Errorf("endpoints of host 1 (-want +got):\n%s", diff)
			}
		})
	}
}

func end(name string, addresses ...string) network.Endpoint {
	a := netip.MustParseAddr
	mac := network.MAC(networktest.Lab(1, 1).Seed, "host1", name, "eth0")
	return network.Endpoint{
		Namespace: name, Link: "v" + name, Inner: "eth0", MAC: mac, IPv4: a(addresses[0]),
		IPv6: a(addresses[1]), PublicIPv4: a(addresses[2]), PublicIPv6: a(addresses[3]),
	}
}

func TestExclude(t *testing.T) {
	for _, c := range []struct {
		hosts   int
		hairpin string
		left    bool
	}{{1, "false", true}, {1, "true", false}, {2, "false", false}, {2, "true", false}} {
		reason := nat.Network{}.Exclude(c.hosts, part.Params{"hairpin": c.hairpin})
		if (reason != "") != c.left {
			t.Errorf("%d hosts, hairpin=%s: left out because %q", c.hosts, c.hairpin, reason)
		}
	}
}

// TestUntranslated builds the lab that Exclude leaves out: it is that of a bridge.
func TestUntranslated(t *testing.T) {
	plans, ends, err := nat.Network{}.Build(networktest.Lab(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if text := plans[0].String(); strings.Contains(text, "nat ") || strings.Contains(text, "forward") {
		t.Errorf("something is translated or forwarded:\n%s", text)
	}
	if ends[0][0].PublicIPv4.IsValid() {
		t.Errorf("the source is known as %s", ends[0][0].PublicIPv4)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]network.Container)
		want   string
	}{
		{"no ports", func(c []network.Container) {
			c[1].Ports = network.Ports{}
		}, `host 1: container "snk1" has no ports to publish`},
		{"ports of another", func(c []network.Container) {
			c[0].Ports.Last = c[1].Ports.First
		}, `host 1: containers "src0" and "snk1" both have port 20010, but share one public address`},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(2, 3)
			c.change(lab.Hosts[0].Containers)
			if _, _, err := (nat.Network{}).Build(lab); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q", err, c.want)
			}
		})
	}
}
