package macvlan_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, macvlan.Network{}, nil, map[string]string{"mode": "private"}, map[string]string{"mode": "vepa"}, map[string]string{"mode": "passthru"})
}

func TestPlan(t *testing.T) {
	seed := networktest.Lab(1, 1).Seed
	mac := func(name ...string) string { return network.MAC(seed, name...) }
	for _, c := range []struct {
		name  string
		mode  string
		hosts int
		want  string
		ends  [][]network.Endpoint
	}{
		{"across hosts", "bridge", 2, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.1/16, fd00:198:18::1/48, mtu 1440, up
  7 macvlan eth0 in src0 with 198.18.1.0/16, fd00:198:18::1:0/48, mac ` + mac("host1", "src0", "eth0") + `, mtu 1440, mode bridge, over up0
  8 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
  9 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 10 sysctl net.ipv4.tcp_orphan_retries=1 in src0
`, [][]network.Endpoint{{end("src0", "198.18.1.0", "fd00:198:18::1:0")}, {end("snk0", "198.18.2.0", "fd00:198:18::2:0")}}},
		{"on one host", "bridge", 1, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 veth lower0, mac ` + mac("host1", "lower0") + `, mtu 1440; peer idle0, mac ` + mac("host1", "idle0") + `
  7 macvlan eth0 in src0 with 198.18.1.0/16, fd00:198:18::1:0/48, mac ` + mac("host1", "src0", "eth0") + `, mtu 1440, mode bridge, over lower0
  8 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
  9 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 10 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 11 macvlan eth0 in snk0 with 198.18.1.1/16, fd00:198:18::1:1/48, mac ` + mac("host1", "snk0", "eth0") + `, mtu 1440, mode bridge, over lower0
 12 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 13 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 14 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
`, [][]network.Endpoint{{end("src0", "198.18.1.0", "fd00:198:18::1:0"), end("snk0", "198.18.1.1", "fd00:198:18::1:1")}}},
		{"vepa", "vepa", 1, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 bridge sw0, mac ` + mac("host1", "sw0") + `, mtu 1440
  7 veth relay0, mac ` + mac("host1", "relay0") + `, mtu 1440, port of sw0; peer lower0, mac ` + mac("host1", "lower0") + `
  8 tuning of relay0: hairpin
  9 macvlan eth0 in src0 with 198.18.1.0/16, fd00:198:18::1:0/48, mac ` + mac("host1", "src0", "eth0") + `, mtu 1440, mode vepa, over lower0
 10 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 11 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 12 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 13 macvlan eth0 in snk0 with 198.18.1.1/16, fd00:198:18::1:1/48, mac ` + mac("host1", "snk0", "eth0") + `, mtu 1440, mode vepa, over lower0
 14 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 15 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 16 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
`, [][]network.Endpoint{{end("src0", "198.18.1.0", "fd00:198:18::1:0"), end("snk0", "198.18.1.1", "fd00:198:18::1:1")}}},
		{"passthru", "passthru", 1, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 bridge sw0, mac ` + mac("host1", "sw0") + `, mtu 1440
  7 veth ssrc0, mac ` + mac("host1", "ssrc0") + `, mtu 1440, port of sw0; peer psrc0, mac ` + mac("host1", "psrc0") + `
  8 veth ssnk0, mac ` + mac("host1", "ssnk0") + `, mtu 1440, port of sw0; peer psnk0, mac ` + mac("host1", "psnk0") + `
  9 macvlan eth0 in src0 with 198.18.1.0/16, fd00:198:18::1:0/48, mtu 1440, mode passthru, over psrc0
 10 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 11 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 12 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 13 macvlan eth0 in snk0 with 198.18.1.1/16, fd00:198:18::1:1/48, mtu 1440, mode passthru, over psnk0
 14 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 15 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 16 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
`, [][]network.Endpoint{{end("src0", "198.18.1.0", "fd00:198:18::1:0"), end("snk0", "198.18.1.1", "fd00:198:18::1:1")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"mode": c.mode}
			plans, ends, err := macvlan.Network{}.Build(lab)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plans[0].String()); diff != "" {
				t.Errorf("plan of host 1 (-want +got):\n%s", diff)
			}
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
		{"hosts", networktest.Lab(17, 1), "17 hosts, and the range of the underlay has room for the containers of 16"},
		{"containers", containers, "host 1: 3842 containers, and the range of the underlay has room for 3840"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := (macvlan.Network{}).Build(c.lab); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q", err, c.want)
			}
		})
	}
}

// TestExclude wants containers that do not reach each other not to be paired.
func TestExclude(t *testing.T) {
	for _, c := range []struct {
		mode  string
		hosts int
		want  bool
	}{{"private", 1, true}, {"private", 2, false}, {"vepa", 1, false}, {"bridge", 1, false}, {"passthru", 1, false}} {
		if got := (macvlan.Network{}).Exclude(c.hosts, part.Params{"mode": c.mode}); got != "" != c.want {
			t.Errorf("mode %s on %d hosts: %q", c.mode, c.hosts, got)
		}
	}
}

// TestPorts wants a switch of one host not to be given more links than it has ports.
func TestPorts(t *testing.T) {
	lab := networktest.Lab(1, 512)
	lab.Params = part.Params{"mode": "passthru"}
	const want = "host 1: 1024 containers, and a bridge has at most 1023 ports"
	if _, _, err := (macvlan.Network{}).Build(lab); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Build = %v, want %q", err, want)
	}
}
