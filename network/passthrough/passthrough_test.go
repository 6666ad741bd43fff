package passthrough_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
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
	}{
		{"a switch on the host", "none", 1},
		{"the switch of the underlay", "none", 2},
		{"NICs", "eth1+eth2", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"nic": c.nic}
			plans, _, err := passthrough.Network{}.Build(lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+c.name, plans[0].String())
		})
	}
	lab := networktest.Lab(2, 1)
	text := network.Underlay(passthrough.Network{}, lab).String()
	if want := "veth host1c0, mac " + mac("underlay", "host1c0") +
		", mtu 1440, port of under; peer psrc0 in @host1, mac " + mac("host1", "psrc0") +
		", to be moved"; !strings.Contains(text, want) {
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
		{"ports of the host's switch", 1, 512, "none", "host 1: 1024 containers, but a bridge has at most 1023 ports"},
		{
			"ports of the underlay's", 2, 511, "none",
			"1022 containers, but the switch of the underlay has only 1021 ports",
		},
		{"too few NICs", 1, 1, "eth1", "2 containers but 1 NICs (nic=eth1): each container needs a NIC of its own"},
		{"too many NICs", 1, 1, "eth1+eth2+eth3", "2 containers but 3 NICs"},
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
		"":                  `invalid name "" of a NIC`,
		"eth1+":             `invalid name "" of a NIC (valid: none, or one or several such as eth1+eth2)`,
		"a/b":               `invalid name "a/b" of a NIC`,
		"eth1+eth1":         `NIC "eth1" is given twice`,
		"a-name-too-long-0": `invalid name "a-name-too-long-0" of a NIC`,
	} {
		if _, err := (passthrough.Network{}).Describe().Params.Resolve("network passthrough",
			part.Params{"nic": nic}); err == nil || !strings.Contains(err.Error(), want) {
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
		"eth77":          `give NIC "eth77" to a container (no such link)`,
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
		if !ok || !strings.Contains(u.What, want) || u.Missing != "a NIC to spare" ||
			u.Hint != "this machine has none to spare" {
			t.Errorf("nic=%s: %v, want %q", nic, err, want)
		}
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}
