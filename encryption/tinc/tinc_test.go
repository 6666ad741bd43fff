package tinc_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/tinc"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/routed"
)

// udp655 is how its packets are recognized.
func udp655() encryptiontest.Outer { return encryptiontest.Outer{Protocol: 17, Port: 655} }

func TestConformance(t *testing.T) {
	on := []network.Network{bridge.Network{}, routed.Network{}, ebpf.Network{}}
	encryptiontest.Conformance(t, tinc.Encryption{}, nil, udp655(), on...)
}
