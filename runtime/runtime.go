package runtime

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
)

// A Runtime makes containers. What else a runtime may be able to do, such as starting a process within a container, is
// a further interface of one method.
type Runtime interface {
	// Describe says what it is.
	Describe() Description
	// Containers returns the steps that make the containers of a host, in their order. It is pure. Undoing them ends the
	// containers with all that is in them; a step whose undoing does is a [host.FirstUndone].
	Containers(containers []Container) ([]host.Step, error)
}

// A Description says what a runtime is.
type Description = part.Description

// A Claimer is a runtime that says what its containers protect against if each has a network namespace of its own.
type Claimer interface {
	Runtime
	// Claims returns that.
	Claims() threat.Claims
}

// A Container is what a runtime is asked to make.
type Container struct {
	// Name is unique on its host: "src0".
	Name string
	// Namespace is the reference of its network namespace, as in the steps of plans and as the network's endpoint for the
	// container has it: its own name where it has one of its own, "" where it shares its host's.
	Namespace string
}

// A Populated runtime has containers with processes of their own: a worker runs in each of them. Otherwise one worker
// runs on the host for all sources there, and one for all sinks.
type Populated interface {
	Runtime
	// Populated says so, of containers with these parameters.
	Populated(p part.Params) bool
}

// Inside says whether workers run inside the containers of a stack.
func Inside(s stack.Stack) bool {
	p, params, ok := stack.PartOf[Populated](s)
	return ok && p.Populated(params)
}
