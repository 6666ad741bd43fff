package nat_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, nat.Network{}, nil, map[string]string{"hairpin": "true", "entries": "1000"})
}

func TestPlan(t *testing.T) {
	seed := networktest.Lab(1, 1).Seed
	mac := func(name ...string) string { return network.MAC(seed, name...) }
	container := func(name, index string) string {
		return `veth v` + name + `, mac ` + mac("host1", "v"+name) + `, mtu 1440, port of br0; peer eth0 in ` + name + ` with 10.1.1.` + index +
			`/16, fd00:10:1::1:` + index + `/64, mac ` + mac("host1", name, "eth0")
	}
	for _, c := range []struct {
		name    string
		hosts   int
		hairpin string
		want    string
		ends    []network.Endpoint
	}{
		{"across hosts", 2, "false", `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.1/16, fd00:198:18::1/48, mtu 1440, up
  7 sysctl net.ipv4.ip_forward=1
  8 sysctl net.ipv6.conf.all.forwarding=1
  9 bridge br0 with 10.1.0.1/16, fd00:10:1::1/64, mac ` + mac("host1", "br0") + `, mtu 1440, multicast snooping
 10 ` + container("src0", "0") + `
 11 route to 0.0.0.0/0 via 10.1.0.1 through eth0 in src0
 12 route to ::/0 via fd00:10:1::1 through eth0 in src0
 13 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 14 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 15 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 16 nat nettoll behind 198.18.0.1, fd00:198:18::1, from 10.1.0.0/16, fd00:10:1::/64; ports 20000-20009 to 10.1.1.0, fd00:10:1::1:0
 17 tuning of vsrc0: isolated
 18 nat-entries: 0, from 10.1.254.1 behind 198.18.0.1 to 192.0.2.1
`, []network.Endpoint{end("src0", "10.1.1.0", "fd00:10:1::1:0", "198.18.0.1", "fd00:198:18::1")}},
		{"hairpin", 1, "true", `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 sysctl net.ipv4.ip_forward=1
  7 sysctl net.ipv6.conf.all.forwarding=1
  8 bridge br0 with 10.1.0.1/16, fd00:10:1::1/64, mac ` + mac("host1", "br0") + `, mtu 1440, multicast snooping
  9 ` + container("src0", "0") + `
 10 route to 0.0.0.0/0 via 10.1.0.1 through eth0 in src0
 11 route to ::/0 via fd00:10:1::1 through eth0 in src0
 12 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 13 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 14 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 15 ` + container("snk0", "1") + `
 16 route to 0.0.0.0/0 via 10.1.0.1 through eth0 in snk0
 17 route to ::/0 via fd00:10:1::1 through eth0 in snk0
 18 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 19 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 20 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
 21 nat nettoll behind 10.1.0.1, fd00:10:1::1, from 10.1.0.0/16, fd00:10:1::/64; ports 20000-20009 to 10.1.1.0, fd00:10:1::1:0; ports 20010-20019 to 10.1.1.1, fd00:10:1::1:1
 22 tuning of vsrc0: isolated
 23 tuning of vsnk0: isolated
 24 nat-entries: 0, from 10.1.254.1 behind 10.1.0.1 to 192.0.2.1
`, []network.Endpoint{
			end("src0", "10.1.1.0", "fd00:10:1::1:0", "10.1.0.1", "fd00:10:1::1"),
			end("snk0", "10.1.1.1", "fd00:10:1::1:1", "10.1.0.1", "fd00:10:1::1"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"hairpin": c.hairpin}
			plans, ends, err := nat.Network{}.Build(lab)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plans[0].String()); diff != "" {
				t.Errorf("plan of host 1 (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.ends, ends[0], cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
				t.Errorf("endpoints of host 1 (-want +got):\n%s", diff)
			}
		})
	}
}

func end(name string, addresses ...string) network.Endpoint {
	a := netip.MustParseAddr
	return network.Endpoint{Namespace: name, Link: "v" + name, Inner: "eth0", IPv4: a(addresses[0]), IPv6: a(addresses[1]), PublicIPv4: a(addresses[2]), PublicIPv6: a(addresses[3])}
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
		{"no ports", func(c []network.Container) { c[1].Ports = network.Ports{} }, `host 1: container "snk1" has no ports to publish`},
		{"ports of another", func(c []network.Container) { c[0].Ports.Last = c[1].Ports.First }, `host 1: containers "src0" and "snk1" have port 20010 both, and behind one address it can be only one's`},
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
