package local

import (
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/stack"
)

// lacking is a network that no host supports.
type lacking struct{ networktest.Fake }

func (lacking) Check(part.Params) error {
	return &linux.UnsupportedError{What: "join containers", Missing: "rope", Hint: "buy some"}
}

// kinds returns the kinds of the labs of these tests.
func kinds() stack.Kinds {
	return stack.Kinds{
		network.Kind{bridge.Network{}, lacking{networktest.Fake{Description: network.Description{
			Name: "lacking", Summary: "joins nothing", Implementation: "kernel",
		}}}},
		runtime.Kind{netns.Runtime{}},
	}
}

func TestDeployment(t *testing.T) {
	testnet.Root(t)
	wanted := func(id string, hosts int) deploy.Spec {
		s, err := kinds().Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		spec := labtest.Lab(s, hosts)
		spec.ID = id
		return spec
	}
	one, two := wanted("bridge", 1), wanted("bridge", 2)
	one.ID, two.ID = "one", "two"
	labtest.Conformance(t, func() deploy.Deployment { return &Deployment{} }, []deploy.Spec{one, two}, wanted("lacking", 1))
}
