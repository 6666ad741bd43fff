package bridge_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, bridge.Network{}, nil,
		map[string]string{"txqueuelen": "1000", "rps": "all", "rfs": "256", "gro": "on", "checksum": "off", "hairpin": "on", "bridge-nf": "on"})
}

func TestPlan(t *testing.T) {
	lab := networktest.Lab(2, 1)
	plans, ends, err := bridge.Network{}.Build(lab)
	if err != nil {
		t.Fatal(err)
	}
	mac := func(name ...string) string { return network.MAC(lab.Seed, name...) }
	want := `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.1/16, fd00:198:18::1/48, mtu 1440, up
  7 sysctl net.ipv4.ip_forward=1
  8 sysctl net.ipv6.conf.all.forwarding=1
  9 bridge br0 with 10.1.0.1/16, fd00:10:1::1/64, mac ` + mac("host1", "br0") + `, mtu 1440, multicast snooping
 10 veth vsrc0, mac ` + mac("host1", "vsrc0") + `, mtu 1440, port of br0; peer eth0 in src0 with 10.1.1.0/16, fd00:10:1::1:0/64, mac ` + mac("host1", "src0", "eth0") + `
 11 route to 0.0.0.0/0 via 10.1.0.1 through eth0 in src0
 12 route to ::/0 via fd00:10:1::1 through eth0 in src0
 13 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 14 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 15 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 16 route to 10.2.0.0/16 via 198.18.0.2 through up0
 17 route to fd00:10:2::/64 via fd00:198:18::2 through up0
`
	if diff := cmp.Diff(want, plans[0].String()); diff != "" {
		t.Errorf("plan of host 1 (-want +got):\n%s", diff)
	}
	wantEnds := [][]network.Endpoint{
		{{Namespace: "src0", Link: "vsrc0", Inner: "eth0", IPv4: netip.MustParseAddr("10.1.1.0"), IPv6: netip.MustParseAddr("fd00:10:1::1:0")}},
		{{Namespace: "snk0", Link: "vsnk0", Inner: "eth0", IPv4: netip.MustParseAddr("10.2.1.0"), IPv6: netip.MustParseAddr("fd00:10:2::1:0")}},
	}
	if diff := cmp.Diff(wantEnds, ends, cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

// On one host there is no way past the bridge: the host forwards nothing, whatever the machine does.
func TestForwardsNothing(t *testing.T) {
	plans, _, err := bridge.Network{}.Build(networktest.Lab(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sysctl net.ipv4.ip_forward=0\n", "sysctl net.ipv6.conf.all.forwarding=0\n"} {
		if text := plans[0].String(); !strings.Contains(text, want) {
			t.Errorf("plan of the only host without %q:\n%s", want, text)
		}
	}
}

func TestLimits(t *testing.T) {
	long, many := networktest.Lab(1, 1), networktest.Lab(1, 512)
	long.Hosts[0].Containers[0].Name = "a-long-name-of-c"
	for _, c := range []struct {
		name string
		lab  network.Lab
		want string
	}{
		{"name of a container", long, `the name "a-long-name-of-c" of a container is too long (1 to 14 bytes)`},
		{"ports", many, `host 1: 1024 containers, and a bridge has at most 1023 ports`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := (bridge.Network{}).Build(c.lab); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q", err, c.want)
			}
		})
	}
}
