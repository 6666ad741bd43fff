package macvlan_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/macvlan"
)

// eth0 returns the step for a link in container m.
func eth0(lower string) macvlan.Link {
	return macvlan.Link{Upper: host.Upper{
		NS: "m", Name: "eth0", Mode: "bridge", Lower: lower, MAC: "02:00:00:00:00:04", MTU: 1400,
		Addresses: []string{"198.18.1.0/16", "fd00:198:18::1:0/48"},
	}}
}

// kernel returns the kernel of a machine that ends with the test.
func kernel(t *testing.T) *host.Kernel {
	t.Helper()
	return steptest.Kernel(t, testnet.New(t), host.KernelConfig{})
}

// plan returns a plan for a container with a link above a veth.
func plan() host.Plan {
	return host.Plan{Steps: []host.Step{
		host.Namespace{Name: "m"}, host.Veth{Name: "lower0", MTU: 1400, PeerName: "lower1"}, eth0("lower0"),
	}}
}

func TestLinkString(t *testing.T) {
	want := macvlan.Link{Upper: host.Upper{
		NS: "src1", Name: "eth0", Mode: "bridge", LowerNS: "@host1", Lower: "up0", MAC: "02:00:00:00:00:05", MTU: 1500,
		Addresses: []string{"198.18.1.1/16"},
	}}
	if diff := cmp.Diff("macvlan eth0 in src1 with 198.18.1.1/16, mac 02:00:00:00:00:05, mtu 1500, mode bridge, over up0 "+
		"in @host1", want.String()); diff != "" {
		t.Errorf("step as text (-want +got):\n%s", diff)
	}
	data, err := json.Marshal(host.Plan{Steps: []host.Step{want}})
	if err != nil {
		t.Fatal(err)
	}
	const text = `[{"kind":"macvlan","ns":"src1","name":"eth0","mode":"bridge","lower_ns":"@host1","lower":"up0",` +
		`"mac":"02:00:00:00:00:05","mtu":1500,"addresses":["198.18.1.1/16"]}]`
	if diff := cmp.Diff(text, string(data)); diff != "" {
		t.Errorf("step as JSON (-want +got):\n%s", diff)
	}
	got, err := host.Decoder{Kinds: macvlan.Network{}.Steps()}.Decode(data)
	if diff := cmp.Diff([]host.Step{want}, got.Steps); err != nil || diff != "" {
		t.Errorf("%v; step after a round trip (-want +got):\n%s", err, diff)
	}
}

func TestLinkTampering(t *testing.T) {
	k := kernel(t)
	on := func(ns, name string, f func(*link.Handle, link.Link) error) func() error {
		return func() error {
			h, err := k.Links(ns)
			if err != nil {
				return err
			}
			l, err := h.ByName(name)
			if err != nil {
				return err
			}
			return f(h, l)
		}
	}
	var more host.Stack
	for _, c := range []struct {
		name   string
		tamper func() error
		want   string
	}{
		{
			"mode", on("m", "eth0", func(h *link.Handle, l link.Link) error { return h.SetMacvlanMode(l.Index, "private") }),
			"mode of eth0: want bridge, got private",
		},
		{
			"gone", on("m", "eth0", func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }),
			"link eth0 in m: want present, got absent",
		},
		{
			"down", on("m", "eth0", func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }),
			"eth0: want up, got down",
		},
		{
			"link below down", on("", "lower1", func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }),
			"lower1: want up, got down",
		},
		{"address", on("m", "eth0", func(h *link.Handle, l link.Link) error {
			return h.DeleteAddress(l.Index, netip.MustParsePrefix("198.18.1.0/16"))
		}), "address 198.18.1.0/16 of eth0: want present, got absent"},
		{"above another link", on("m", "eth0", func(h *link.Handle, l link.Link) error {
			other := host.Plan{Steps: []host.Step{eth0("lower1")}}
			if err := more.Apply(t.Context(), k, other); !errors.Is(err, link.ErrExists) {
				return errors.Join(errors.New("a second link of the name was made"), err)
			}
			if err := h.Delete(l.Index); err != nil {
				return err
			}
			return more.Apply(t.Context(), k, other)
		}), "index of the link below eth0: want "},
	} {
		t.Run(c.name, func(t *testing.T) {
			steptest.Noticed(t, k, plan(), c.tamper, c.want)
		})
	}
}

func TestLinkErrors(t *testing.T) {
	k := kernel(t)
	for name, c := range map[string]struct {
		link host.Upper
		want string
	}{
		"mode of none": {
			host.Upper{Name: "m", Mode: "none", Lower: "br0"},
			`make macvlan "m": mode "none" (known: bridge, private, vepa, passthru)`,
		},
		"nothing below": {host.Upper{Name: "m", Mode: "bridge", Lower: "none"}, `read link "none": not found`},
		"above lo":      {host.Upper{Name: "m", Mode: "bridge", Lower: "lo"}, `make macvlan "m": `},
		"exists":        {host.Upper{Name: "eth0", Mode: "bridge", Lower: "br0"}, `make macvlan "eth0": exists already`},
		"larger than below": {
			host.Upper{Name: "m", Mode: "bridge", Lower: "br0", MTU: 1500}, `make macvlan "m": `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.link.NS = "c"
			var s host.Stack
			err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
				host.Namespace{Name: "c"},
				host.Bridge{Name: "br0", MTU: 1400},
				host.Veth{Name: "v0", MTU: 1400, Master: "br0", PeerNS: "c", PeerName: "eth0"},
				macvlan.Link{Upper: c.link},
			}})
			if errors.Is(err, errors.ErrUnsupported) {
				testnet.Skip(t, err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || s.Len() > 0 {
				t.Errorf("Apply = %v and %d steps\nwant %q", err, s.Len(), c.want)
			}
		})
	}
}
