package passthrough_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/passthrough"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) { networktest.Conformance(t, passthrough.Network{}) }

func TestPlan(t *testing.T) {
	seed := networktest.Lab(1, 1).Seed
	mac := func(name ...string) string { return network.MAC(seed, name...) }
	for _, c := range []struct {
		name  string
		nic   string
		hosts int
		want  string
	}{
		{"a switch on the host", "none", 1, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 bridge sw0, mac ` + mac("host1", "sw0") + `, mtu 1440
  7 veth ssrc0, mac ` + mac("host1", "ssrc0") + `, mtu 1440, port of sw0; peer psrc0, mac ` + mac("host1", "psrc0") + `, to be moved
  8 veth ssnk0, mac ` + mac("host1", "ssnk0") + `, mtu 1440, port of sw0; peer psnk0, mac ` + mac("host1", "psnk0") + `, to be moved
  9 plug psrc0 in src0 as eth0 with 198.18.1.0/16, fd00:198:18::1:0/48, mtu 1440
 10 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
 11 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 12 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 13 plug psnk0 in snk0 as eth0 with 198.18.1.1/16, fd00:198:18::1:1/48, mtu 1440, timed
 14 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 15 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 16 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
`},
		{"the switch of the underlay", "none", 2, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 link up0 with 198.18.0.1/16, fd00:198:18::1/48, mtu 1440, up
  7 plug psrc0 in src0 as eth0 with 198.18.1.0/16, fd00:198:18::1:0/48, mtu 1440, timed
  8 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
  9 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
 10 sysctl net.ipv4.tcp_orphan_retries=1 in src0
`},
		{"NICs", "eth1+eth2", 1, `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 sysctl net.ipv6.conf.default.accept_dad=0, if this kernel has it
  5 link lo, mtu 1440, up
  6 plug eth1 in @machine in src0 as eth1 with 198.18.1.0/16, fd00:198:18::1:0/48, mtu 1440
  7 sysctl net.ipv4.tcp_slow_start_after_idle=0 in src0
  8 sysctl net.ipv4.tcp_no_metrics_save=1 in src0
  9 sysctl net.ipv4.tcp_orphan_retries=1 in src0
 10 plug eth2 in @machine in snk0 as eth2 with 198.18.1.1/16, fd00:198:18::1:1/48, mtu 1440, timed
 11 sysctl net.ipv4.tcp_slow_start_after_idle=0 in snk0
 12 sysctl net.ipv4.tcp_no_metrics_save=1 in snk0
 13 sysctl net.ipv4.tcp_orphan_retries=1 in snk0
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"nic": c.nic}
			plans, _, err := passthrough.Network{}.Build(lab)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plans[0].String()); diff != "" {
				t.Errorf("plan of host 1 (-want +got):\n%s", diff)
			}
		})
	}
	lab := networktest.Lab(2, 1)
	text := network.Underlay(passthrough.Network{}, lab).String()
	if want := "veth host1c0, mac " + mac("underlay", "host1c0") + ", mtu 1440, port of under; peer psrc0 in @host1, mac " + mac("host1", "psrc0") + ", to be moved"; !strings.Contains(text, want) {
		t.Errorf("the plan of the underlay has not %q:\n%s", want, text)
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name         string
		hosts, pairs int
		nic          string
		want         string
	}{
		{"ports of the host's switch", 1, 512, "none", "host 1: 1024 containers, and a bridge has at most 1023 ports"},
		{"ports of the underlay's", 2, 511, "none", "1022 containers, and the switch of the underlay has 1021 ports for them"},
		{"too few NICs", 1, 1, "eth1", "2 containers, and 1 NICs for them (nic=eth1): each has one of its own"},
		{"too many NICs", 1, 1, "eth1+eth2+eth3", "2 containers, and 3 NICs for them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, c.pairs)
			lab.Params = part.Params{"nic": c.nic}
			if _, _, err := (passthrough.Network{}).Build(lab); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q", err, c.want)
			}
		})
	}
	for nic, want := range map[string]string{
		"":                  `"" is no name of a NIC`,
		"eth1+":             "is no name of a NIC (want none, or one or several such as eth1+eth2)",
		"a/b":               `"a/b" is no name of a NIC`,
		"eth1+eth1":         `NIC "eth1" is given twice`,
		"a-name-too-long-0": "is no name of a NIC",
	} {
		if _, err := (passthrough.Network{}).Describe().Params.Resolve("network passthrough", part.Params{"nic": nic}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nic=%q: %v, want %q", nic, err, want)
		}
	}
}

// TestSpare asks on a machine of its own which of its links could be taken.
func TestSpare(t *testing.T) {
	machine := testnet.New(t)
	var k *host.Kernel
	if err := machine.Do(func() (err error) {
		k, err = host.NewKernel(host.KernelConfig{Dir: machine.Dir})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		host.Veth{Name: "way0", PeerName: "other0", Addresses: []string{"192.0.2.1/24"}},
		host.Route{To: "0.0.0.0/0", Via: "192.0.2.2"},
		host.Veth{Name: "used0", PeerName: "virtual0", Addresses: []string{"198.51.100.1/24"}},
	}}))
	for nic, want := range map[string]string{
		"none":           "",
		"eth77":          `give NIC "eth77" to a container (there is no such link)`,
		"lo":             "it is the loopback link",
		"way0":           "it is the machine's only way out: the default route goes through it",
		"used0":          "it has the address 198.51.100.1/24",
		"virtual0":       "it is virtual (veth), and would be lost if nettoll was killed",
		"used0+virtual0": "it has the address",
	} {
		var err error
		if derr := machine.Do(func() error {
			err = passthrough.Network{}.Check(part.Params{"nic": nic})
			return nil
		}); derr != nil {
			t.Fatal(derr)
		}
		if want == "" {
			if err != nil {
				t.Errorf("nic=%s: %v", nic, err)
			}
			continue
		}
		u, ok := errors.AsType[*linux.UnsupportedError](err)
		if !ok || !strings.Contains(u.What, want) || u.Missing != "a NIC to spare" || u.Hint != "this machine has none to spare" {
			t.Errorf("nic=%s: %v, want %q", nic, err, want)
		}
	}
	if err := s.Undo(); err != nil {
		t.Error(err)
	}
}
