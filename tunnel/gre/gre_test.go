package gre_test

import (
	"testing"

	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/tunnel/gre"
	"github.com/nettoll/nettoll/tunnel/tunneltest"
)

// Other networks hand packets to it as they do to ipip, which is the same but for its header.
func TestConformance(t *testing.T) {
	for _, impl := range []string{"kernel", "ebpf"} {
		tunneltest.Conformance(t, gre.Tunnel{}, map[string]string{"impl": impl}, bridge.Network{}, ebpf.Network{})
		tunneltest.Conformance(t, gre.Tunnel{}, map[string]string{"impl": impl, "outer": "ipv6"}, bridge.Network{})
	}
}

// Frames have other devices and programs.
func TestFrames(t *testing.T) {
	for _, impl := range []string{"kernel", "ovs"} {
		given := map[string]string{"inner": "ethernet", "impl": impl}
		tunneltest.Conformance(t, gre.Tunnel{}, given, bridge.Network{}, ebpf.Network{})
		tunneltest.Brief(t, gre.Tunnel{}, map[string]string{"inner": "ethernet", "impl": impl, "outer": "ipv6"}, bridge.Network{})
	}
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
