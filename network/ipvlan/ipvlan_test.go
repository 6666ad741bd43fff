package ipvlan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, ipvlan.Network{}, nil, map[string]string{"mode": "l3"}, map[string]string{"mode": "l3s"})
}

// TestCheck wants to be told beforehand what a lab would fail of.
func TestCheck(t *testing.T) {
	n := ipvlan.Network{}
	lab := networktest.Lab(1, 1)
	lab.Params = part.Params{"mode": "l2"}
	b, err := networktest.MakeBed(t, n, lab)
	if err != nil {
		t.Fatal(err)
	}
	built := b.Apply(t)
	if err := b.Undo(); err != nil {
		t.Error(err)
	}
	err = n.Check(lab.Params)
	if (err == nil) != (built == nil) {
		t.Errorf("Check = %v, and to build it = %v", err, built)
	}
	if err == nil {
		return
	}
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != `link type "ipvlan"` || !strings.Contains(u.Hint, "macvlan") {
		t.Errorf("Check = %v, want what is missing and what is nearest", err)
	}
	testnet.Skip(t, err)
}

func TestPlan(t *testing.T) {
	seed := networktest.Lab(1, 1).Seed
	mac := func(name ...string) string { return network.MAC(seed, name...) }
	for _, c := range []struct {
		mode  string
		hosts int
		want  string
	}{
		{"l2", 1, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 veth lower0, mac ` + mac("host1", "lower0") + `, mtu 1440; peer idle0, mac ` + mac("host1", "idle0") + `
  7 ipvlan eth0 in src0 with 198.18.1.0/16, fd00:198:18::1:0/48, mtu 1440, mode l2, over lower0
  8 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
  9 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 10 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 11 ipvlan eth0 in snk0 with 198.18.1.1/16, fd00:198:18::1:1/48, mtu 1440, mode l2, over lower0
 12 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 13 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 14 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
`},
		{"l3s", 2, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.1/16, fd00:198:18::1/48, mtu 1440, up
  7 ipvlan eth0 in src0 with 10.1.1.0/32, fd00:10:1::1:0/128, mtu 1440, mode l3s, over up0
  8 route to 0.0.0.0/0 through eth0 in src0
  9 route to ::/0 through eth0 in src0
 10 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 11 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 12 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 13 route to 10.2.0.0/16 via 198.18.0.2 through up0
 14 route to fd00:10:2::/64 via fd00:198:18::2 through up0
`},
	} {
		t.Run(c.mode, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"mode": c.mode}
			plans, _, err := ipvlan.Network{}.Build(lab)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plans[0].String()); diff != "" {
				t.Errorf("plan of host 1 (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHosts wants the range of the underlay to limit what is in it, and nothing else.
func TestHosts(t *testing.T) {
	lab := networktest.Lab(17, 1)
	for mode, want := range map[string]string{"l2": "17 hosts, and the range of the underlay has room for the containers of 16", "l3": ""} {
		lab.Params = part.Params{"mode": mode}
		if _, _, err := (ipvlan.Network{}).Build(lab); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("mode %s: Build = %v, want %q", mode, err, want)
		}
	}
}
