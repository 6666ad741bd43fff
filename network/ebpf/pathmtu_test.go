package ebpf_test

import (
	"testing"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/vxlan"
)

// What is larger than the MTU of a tunnel the program leaves to the stack, which tells the container.
func TestPathMTU(t *testing.T) {
	chosen, err := stack.Kinds{tunnel.Kind{vxlan.Tunnel{}}}.Choose("tunnel", "vxlan", nil)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := network.Compose(networktest.Lab(2, 1), stack.Stack{chosen})
	if err != nil {
		t.Fatal(err)
	}
	for _, attach := range []string{"tcx", "tc", "netkit"} {
		t.Run(attach, func(t *testing.T) {
			if err := stand(t, attach, lab).PathMTU(ebpf.Network{}); err != nil {
				t.Error(err)
			}
		})
	}
}
