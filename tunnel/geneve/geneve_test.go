package geneve_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/ovs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/geneve"
	"github.com/nettoll/nettoll/tunnel/tunneltest"
)

// By the kernel's device.
func TestConformance(t *testing.T) {
	kernel := func(more map[string]string) map[string]string {
		more["impl"] = "kernel"
		return more
	}
	testnet.Root(t)
	testnet.Skip(t, geneve.Tunnel{}.Check(kernel(map[string]string{})))
	tunneltest.Conformance(t, geneve.Tunnel{}, kernel(map[string]string{}), bridge.Network{}, routed.Network{},
		ebpf.Network{}, nat.Network{})
	tunneltest.Conformance(t, geneve.Tunnel{}, kernel(map[string]string{
		"outer": "ipv6", "port": "6082", "checksum": "on",
	}), bridge.Network{}, routed.Network{}, ebpf.Network{}, nat.Network{})
}

// By Open vSwitch, without routes that have more to say, and as of auto where the kernel has no device.
func TestSwitch(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	tunneltest.Conformance(t, geneve.Tunnel{}, map[string]string{"impl": "ovs"}, bridge.Network{})
	tunneltest.Brief(t, geneve.Tunnel{}, nil, ebpf.Network{})
	tunneltest.Brief(t, geneve.Tunnel{}, map[string]string{
		"impl": "ovs", "outer": "ipv6", "port": "6082", "checksum": "on",
	}, bridge.Network{})
}

// TestCheck wants to be told beforehand what a lab would fail of.
func TestCheck(t *testing.T) {
	testnet.Root(t)
	testnet.Program(t, ovs.Daemon, ovs.Package)
	if err := (geneve.Tunnel{}).Check(map[string]string{"impl": "auto"}); err != nil {
		t.Errorf("Check = %v, but Open vSwitch is there", err)
	}
	err := geneve.Tunnel{}.Check(map[string]string{"impl": "kernel"})
	if err == nil {
		return
	}
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != `link type "geneve"` ||
		!strings.Contains(u.Hint, "impl=ovs") {
		t.Errorf("Check = %v, want what is missing and a hint", err)
	}
	testnet.Skip(t, err)
}

// TestPlan shows what a host of three does.
func TestPlan(t *testing.T) {
	lab, err := compose(3, map[string]string{"outer": "ipv6"})
	if err != nil {
		t.Fatal(err)
	}
	plans, _, err := network.Join(bridge.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "plan", plans[0].String())
}

func compose(hosts int, given map[string]string) (network.Lab, error) {
	kinds := stack.Kinds{tunnel.Kind{geneve.Tunnel{}}}
	chosen, err := kinds.Choose("tunnel", "geneve", given)
	if err != nil {
		return network.Lab{}, err
	}
	return network.Compose(networktest.Lab(hosts, hosts), stack.Stack{chosen})
}

// TestTampering makes another device in the place of one, and another route, and wants Verify to say what it is.
func TestTampering(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*link.Handle) error
		want string
	}{
		{"port", func(h *link.Handle) error {
			g, err := h.Geneve("geneve0")
			if err != nil {
				return err
			}
			l, err := h.ByName("geneve0")
			if err != nil {
				return err
			}
			if err := h.Delete(l.Index); err != nil {
				return err
			}
			g.Port++
			_, err = h.AddGeneve(g)
			return err
		}, "port of geneve0: want 6081, got 6082"},
		{"id of a route", func(h *link.Handle) error {
			routes, err := h.EncapRoutes(netip.MustParsePrefix("10.2.0.0/16"))
			if err != nil || len(routes) != 1 {
				return errors.Join(err, fmt.Errorf("%d routes", len(routes)))
			}
			if err := h.DeleteRoute(routes[0]); err != nil {
				return err
			}
			routes[0].Encap.ID++
			return h.AddRoute(routes[0])
		}, "encap id 101 from 198.18.0.1 to 198.18.0.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab, err := compose(2, map[string]string{"impl": "kernel"})
			if err != nil {
				t.Fatal(err)
			}
			b := networktest.Stand(t, bridge.Network{}, lab)
			m := b.Hosts[0]
			h, err := m.Kernel.Links("")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(h); err != nil {
				t.Fatal(err)
			}
			err = m.Stack.Verify(t.Context(), m.Kernel)
			if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Verify = %v, want a drift with %q", err, c.want)
			}
		})
	}
}
