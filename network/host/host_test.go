package host_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/networktest"
)

func TestConformance(t *testing.T) { networktest.Conformance(t, host.Network{}) }

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts int
		plans []string
		ends  [][]network.Endpoint
	}{
		{
			name: "loopback", hosts: 1,
			plans: []string{`  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 sysctl net.ipv4.tcp_slow_start_after_idle=0
  7 sysctl net.ipv4.tcp_no_metrics_save=1
  8 sysctl net.ipv4.tcp_orphan_retries=1
  9 link lo with 10.1.0.1/32, fd00:10:1::1/128, mtu 1440, up
`},
			ends: [][]network.Endpoint{{end("10.1.0.1", "fd00:10:1::1"), end("10.1.0.1", "fd00:10:1::1")}},
		},
		{
			name: "underlay", hosts: 2,
			plans: []string{`  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.1/16, fd00:198:18::1/48, mtu 1440, up
  7 sysctl net.ipv4.tcp_slow_start_after_idle=0
  8 sysctl net.ipv4.tcp_no_metrics_save=1
  9 sysctl net.ipv4.tcp_orphan_retries=1
`, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.2/16, fd00:198:18::2/48, mtu 1440, up
  7 sysctl net.ipv4.tcp_slow_start_after_idle=0
  8 sysctl net.ipv4.tcp_no_metrics_save=1
  9 sysctl net.ipv4.tcp_orphan_retries=1
`},
			ends: [][]network.Endpoint{{end("198.18.0.1", "fd00:198:18::1")}, {end("198.18.0.2", "fd00:198:18::2")}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			plans, ends, err := host.Network{}.Build(networktest.Lab(c.hosts, 1))
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, p := range plans {
				texts = append(texts, p.String())
			}
			if diff := cmp.Diff(c.plans, texts); diff != "" {
				t.Errorf("plans (-want +got):\n%s", diff)
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
