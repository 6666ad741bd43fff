package wireguard_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/wireguard"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	hostnetwork "github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
)

// udp51820 is how its packets are recognized.
func udp51820() encryptiontest.Outer { return encryptiontest.Outer{Protocol: 17, Port: 51820} }

func conformance(t *testing.T, impl string, on ...network.Network) {
	for i, outer := range []string{"ipv4", "ipv6"} {
		if i > 0 {
			on = on[:1]
		}
		given := map[string]string{"impl": impl, "outer": outer}
		encryptiontest.Conformance(t, wireguard.Encryption{}, given, udp51820(), on...)
	}
}

func TestConformanceEmbedded(t *testing.T) {
	testnet.NotInGuest(t, "the process does there what it does on the machine")
	conformance(t, "embedded", bridge.Network{}, nat.Network{}, hostnetwork.Network{}, routed.Network{}, ebpf.Network{})
}

func TestConformanceKernel(t *testing.T) { conformance(t, "kernel", bridge.Network{}) }
