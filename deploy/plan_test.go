package deploy_test

import (
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/nftables"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/stack"
)

// Labs that load something are built alone; others are not.
func TestLoads(t *testing.T) {
	kinds := stack.Kinds{
		network.Kind{bridge.Network{}, nat.Network{}},
		filter.Kind{nftables.Filter{}},
		runtime.Kind{netns.Runtime{}},
	}
	for _, c := range []struct {
		stack string
		want  bool
	}{
		{"bridge", false},
		{"bridge+nftables", true},
		{"nat", false},
		{"nat(entries=7)", true},
	} {
		made, err := kinds.Parse(c.stack)
		if err != nil {
			t.Fatal(err)
		}
		if got := deploy.Loads(made); got != c.want {
			t.Errorf("%s: %t, want %t", c.stack, got, c.want)
		}
	}
}
