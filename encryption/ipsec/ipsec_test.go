package ipsec_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/routed"
)

// inUDP is how its packets are recognized.
func inUDP() encryptiontest.Outer { return encryptiontest.Outer{Protocol: 17, Port: 4500} }

func TestConformanceStrongSwan(t *testing.T) {
	testnet.NotInGuest(t, "the process does there what it does on the machine")
	encryptiontest.Conformance(t, ipsec.Encryption{}, map[string]string{"impl": "strongswan"}, inUDP(), bridge.Network{},
		routed.Network{}, ebpf.Network{})
}

func TestConformanceKernel(t *testing.T) {
	encryptiontest.Conformance(t, ipsec.Encryption{}, map[string]string{"impl": "kernel", "encap": "none"},
		encryptiontest.Outer{Protocol: 50}, bridge.Network{}, routed.Network{}, ebpf.Network{})
	encryptiontest.Conformance(t, ipsec.Encryption{}, map[string]string{"impl": "kernel", "outer": "ipv6"}, inUDP(),
		bridge.Network{})
}
