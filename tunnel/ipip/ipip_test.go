package ipip_test

import (
	"testing"

	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/tunnel/ipip"
	"github.com/nettoll/nettoll/tunnel/tunneltest"
)

func TestConformance(t *testing.T) {
	for _, impl := range []string{"kernel", "ebpf"} {
		tunneltest.Conformance(t, ipip.Tunnel{}, map[string]string{"impl": impl}, bridge.Network{}, routed.Network{},
			ebpf.Network{}, nat.Network{})
		tunneltest.Conformance(t, ipip.Tunnel{}, map[string]string{"impl": impl, "outer": "ipv6"}, bridge.Network{})
	}
}

// Packets that no peer has sent, or not so, do not reach a container.
func TestStrangers(t *testing.T) {
	for _, impl := range []string{"kernel", "ebpf"} {
		for _, outer := range []string{"ipv4", "ipv6"} {
			tunneltest.Strangers(t, ipip.Tunnel{}, map[string]string{"impl": impl, "outer": outer}, bridge.Network{}, false,
				impl == "ebpf")
		}
	}
}
