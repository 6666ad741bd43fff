package ipvlan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
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
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != `link type "ipvlan"` ||
		!strings.Contains(u.Hint, "macvlan") {
		t.Errorf("Check = %v, want what is missing and what is nearest", err)
	}
	testnet.Skip(t, err)
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		mode  string
		hosts int
	}{
		{"l2", 1},
		{"l3s", 2},
	} {
		t.Run(c.mode, func(t *testing.T) {
			lab := networktest.Lab(c.hosts, 1)
			lab.Params = part.Params{"mode": c.mode}
			plans, _, err := network.Join(ipvlan.Network{}, lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+c.mode, plans[0].String())
		})
	}
}

// TestHosts wants the range of the underlay to limit what is in it, and nothing else.
func TestHosts(t *testing.T) {
	lab := networktest.Lab(17, 1)
	for mode, want := range map[string]string{
		"l2": "17 hosts, but the address range of the underlay has room for the containers of 16", "l3": "",
	} {
		lab.Params = part.Params{"mode": mode}
		if _, _, err := (ipvlan.Network{}).Build(lab); want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("mode %s: Build = %v, want %q", mode, err, want)
		}
	}
}
