package runtime

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
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

// A Container is what a runtime is asked to make.
type Container struct {
	// Name is unique on its host: "src0".
	Name string
	// Namespace is the reference of its network namespace, as in the steps of plans and as the network's endpoint for the
	// container has it: its own name where it has one of its own, "" where it shares its host's.
	Namespace string
}
