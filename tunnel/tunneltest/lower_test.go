package tunneltest_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/openvpn"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/geneve"
	"github.com/nettoll/nettoll/tunnel/gre"
	"github.com/nettoll/nettoll/tunnel/ipip"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// A tunnel of layer 3 stands on a span that has no frames of Ethernet, as that of an encryption.
func TestOnLayer3(t *testing.T) {
	choose := func(one tunnel.Tunnel, params map[string]string) stack.Choice {
		c, err := stack.Kinds{tunnel.Kind{one}}.Choose("tunnel", one.Describe().Name, params)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, impl := range []string{"kernel", "ebpf"} {
		for _, outer := range []string{"ipv4", "ipv6"} {
			t.Run(impl+", "+outer, func(t *testing.T) {
				networktest.CheckCarried(t, bridge.Network{}, stack.Stack{
					choose(ipip.Tunnel{}, map[string]string{"impl": impl, "outer": outer}),
					choose(gre.Tunnel{}, map[string]string{"impl": "kernel"}),
				}, "packets, 2 hosts, 1 pairs", "undo, 2 hosts")
			})
		}
	}
}

// Open vSwitch makes Ethernet frames, and takes them from nobody else: those of a link that has none get a header.
func TestSwitchOnLayer3(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	for _, outer := range []string{"ipv4", "ipv6"} {
		below, err := stack.Kinds{encryption.Kind{openvpn.Encryption{}}}.Choose("encryption", "openvpn", nil)
		if err != nil {
			t.Fatal(err)
		}
		upper, err := stack.Kinds{tunnel.Kind{geneve.Tunnel{}}}.Choose("tunnel", "geneve", map[string]string{
			"impl": "ovs", "outer": outer,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(outer, func(t *testing.T) {
			networktest.CheckCarried(t, bridge.Network{}, stack.Stack{upper, below}, "packets, 2 hosts, 1 pairs",
				"undo, 2 hosts")
		})
	}
}
