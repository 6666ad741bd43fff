package gre_test

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/gre"
	"github.com/nettoll/nettoll/tunnel/tunneltest"
)

// Other networks hand packets to it as they do to ipip, which is the same but for its header.
func TestConformance(t *testing.T) {
	for _, impl := range []string{"kernel", "ebpf"} {
		tunneltest.Conformance(t, gre.Tunnel{}, map[string]string{"impl": impl}, bridge.Network{}, routed.Network{},
			ebpf.Network{})
		tunneltest.Conformance(t, gre.Tunnel{}, map[string]string{"impl": impl, "outer": "ipv6"}, bridge.Network{})
	}
}

// Frames have other devices, and each link a MAC address of its own.
func TestFramesByKernel(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, gre.Tunnel{}.Check(frames("kernel", "ipv4")))
	tunneltest.Conformance(t, gre.Tunnel{}, frames("kernel", "ipv4"), bridge.Network{}, ebpf.Network{})
	tunneltest.Brief(t, gre.Tunnel{}, frames("kernel", "ipv6"), bridge.Network{})
}

// Geneve is tried by Open vSwitch in full. This has a link for each other host.
func TestFramesBySwitch(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	tunneltest.Brief(t, gre.Tunnel{}, frames("ovs", "ipv4"), ebpf.Network{})
	tunneltest.Brief(t, gre.Tunnel{}, frames("ovs", "ipv6"), bridge.Network{})
}

func frames(impl, outer string) map[string]string {
	return map[string]string{"inner": "ethernet", "impl": impl, "outer": outer}
}

// TestFits wants what encapsulates to take what is inside.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		inner, impl, want string
	}{
		{"ip", "ovs", "Open vSwitch carries Ethernet frames (valid: auto, kernel, ebpf; or inner=ethernet)"},
		{"ethernet", "ebpf", "eBPF programs carry IP packets (valid: auto, kernel, ovs)"},
	} {
		s := carriertest.Choose(t, tunnel.Kind{gre.Tunnel{}}, map[string]string{"inner": c.inner, "impl": c.impl})
		_, composed := network.Compose(networktest.Lab(2, 1), s)
		for _, err := range []error{composed, gre.Tunnel{}.Check(s[0].Params)} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("inner=%s, impl=%s: %v, want an error with %q", c.inner, c.impl, err, c.want)
			}
		}
	}
}

// TestPlan shows what a host of three does.
func TestPlan(t *testing.T) {
	s := carriertest.Choose(t, tunnel.Kind{gre.Tunnel{}}, map[string]string{"inner": "ethernet", "impl": "ovs"})
	lab, err := network.Compose(networktest.Lab(3, 1), s)
	if err != nil {
		t.Fatal(err)
	}
	plans, _, err := network.Join(bridge.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "plan", plans[0].String())
}

// Packets that no peer has sent, or not so, do not reach a container.
func TestStrangers(t *testing.T) {
	for _, impl := range []string{"kernel", "ebpf"} {
		for _, outer := range []string{"ipv4", "ipv6"} {
			tunneltest.Strangers(t, gre.Tunnel{}, map[string]string{"impl": impl, "outer": outer}, bridge.Network{}, true,
				impl == "ebpf")
		}
	}
}
