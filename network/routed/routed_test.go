package routed_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
		want    string
	}{
		{"link-local", 2, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.1/16, fd00:198:18::1/48, mtu 1440, up
  7 sysctl net.ipv4.ip_forward=1
  8 sysctl net.ipv6.conf.all.forwarding=1
  9 route to 169.254.1.1/32 through lo
 10 veth vsrc0 with fe80::ecee:eeff:feee:eeee/64, mac ` + mac("host1", "vsrc0") + `, mtu 1440; peer eth0 in src0 with 10.1.1.0/32, fd00:10:1::1:0/128, mac ` + mac("host1", "src0", "eth0") + `
 11 sysctl net.ipv4.conf.vsrc0.proxy_arp=1
 12 sysctl net.ipv4.neigh.vsrc0.proxy_delay=0
 13 route to 10.1.1.0/32 through vsrc0
 14 route to fd00:10:1::1:0/128 through vsrc0
 15 route to 169.254.1.1/32 through eth0 in src0
 16 route to 0.0.0.0/0 via 169.254.1.1 through eth0 in src0
 17 route to ::/0 via fe80::ecee:eeff:feee:eeee through eth0 in src0
 18 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 19 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 20 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 21 route to 10.2.0.0/16 via 198.18.0.2 through up0
 22 route to fd00:10:2::/64 via fd00:198:18::2 through up0
`},
		{"proxy-arp", 1, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 sysctl net.ipv4.ip_forward=1
  7 sysctl net.ipv6.conf.all.forwarding=1
  8 link lo with 198.18.0.1/32, fd00:198:18::1/128, mtu 1440, up
  9 route to 10.1.0.1/32 through lo
 10 veth vsrc0, mac ` + mac("host1", "vsrc0") + `, mtu 1440; peer eth0 in src0 with 10.1.1.0/32, fd00:10:1::1:0/128, mac ` + mac("host1", "src0", "eth0") + `
 11 sysctl net.ipv4.conf.vsrc0.proxy_arp=1
 12 sysctl net.ipv4.neigh.vsrc0.proxy_delay=0
 13 sysctl net.ipv6.conf.vsrc0.proxy_ndp=1
 14 sysctl net.ipv6.neigh.vsrc0.proxy_delay=0
 15 answers for fd00:10:1::1 through vsrc0
 16 route to 10.1.1.0/32 through vsrc0
 17 route to fd00:10:1::1:0/128 through vsrc0
 18 route to 10.1.0.1/32 through eth0 in src0
 19 route to 0.0.0.0/0 via 10.1.0.1 through eth0 in src0
 20 route to fd00:10:1::1/128 through eth0 in src0
 21 route to ::/0 via fd00:10:1::1 through eth0 in src0
 22 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 23 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 24 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 25 veth vsnk0, mac ` + mac("host1", "vsnk0") + `, mtu 1440; peer eth0 in snk0 with 10.1.1.1/32, fd00:10:1::1:1/128, mac ` + mac("host1", "snk0", "eth0") + `
 26 sysctl net.ipv4.conf.vsnk0.proxy_arp=1
 27 sysctl net.ipv4.neigh.vsnk0.proxy_delay=0
 28 sysctl net.ipv6.conf.vsnk0.proxy_ndp=1
 29 sysctl net.ipv6.neigh.vsnk0.proxy_delay=0
 30 answers for fd00:10:1::1 through vsnk0
 31 route to 10.1.1.1/32 through vsnk0
 32 route to fd00:10:1::1:1/128 through vsnk0
 33 route to 10.1.0.1/32 through eth0 in snk0
 34 route to 0.0.0.0/0 via 10.1.0.1 through eth0 in snk0
 35 route to fd00:10:1::1/128 through eth0 in snk0
 36 route to ::/0 via fd00:10:1::1 through eth0 in snk0
 37 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 38 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 39 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
`},
	} {
		t.Run(c.gateway, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"gateway": c.gateway}
			plans, ends, err := routed.Network{}.Build(lab)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plans[0].String()); diff != "" {
				t.Errorf("plan of host 1 (-want +got):\n%s", diff)
			}
			want := network.Endpoint{Namespace: "src0", IPv4: netip.MustParseAddr("10.1.1.0"), IPv6: netip.MustParseAddr("fd00:10:1::1:0"), Link: "vsrc0", Inner: "eth0"}
			if diff := cmp.Diff(want, ends[0][0], cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
				t.Errorf("endpoint of src0 (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPermanent wants entries at both ends where a lab is large, and none where it is not.
func TestPermanent(t *testing.T) {
	for pairs, want := range map[int]bool{100: false, 101: true} {
		plans, _, err := routed.Network{}.Build(networktest.Lab(1, pairs))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"neighbour 10.1.1.0, fd00:10:1::1:0 at ", "neighbour 169.254.1.1, fe80::ecee:eeff:feee:eeee at "} {
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
