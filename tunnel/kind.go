package tunnel

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
)

// name is that of the kind.
const name = "tunnel"

// Kind is the kind of parts that carry packets between hosts: all of them, in the order of help. The hosts of
// stacks without one route to each other directly.
type Kind []Tunnel

// Describe says what the kind is.
func (Kind) Describe() stack.Description {
	return stack.Description{
		Name: name, Plural: name + "s", Summary: "Carries packets between hosts.", Sign: "+", Default: stack.None,
	}
}

// Parts lists the tunnels.
func (k Kind) Parts() []stack.Part {
	list := make([]stack.Part, len(k))
	for i, one := range k {
		list[i] = stack.Part{Description: one.Describe(), Value: one}
	}
	return list
}

// Steps returns the kinds of steps that tunnels bring.
func (k Kind) Steps() map[string]func() host.Step { return network.CarrierSteps(k.Parts()) }

// Refuse returns why labs of so many hosts with this stack have no use for its tunnel.
func (Kind) Refuse(s stack.Stack, hosts int) string { return network.RefuseCarrier(name, s, hosts) }

// Check returns why the tunnel of a stack cannot be built on this machine.
func (Kind) Check(s stack.Stack) error { return network.CheckCarrier(name, s) }
