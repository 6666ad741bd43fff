package netns

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/runtime"
)

// Runtime is the runtime "netns".
type Runtime struct{}

// Describe returns the description of the runtime.
func (Runtime) Describe() runtime.Description {
	return runtime.Description{
		Name:           "netns",
		Summary:        "each container is only a network namespace",
		Implementation: "kernel",
	}
}

// Claims says that abstract unix sockets belong to a network namespace (unix(7)).
func (Runtime) Claims() threat.Claims { return threat.Withstands(threat.Abstract) }

// Containers makes a namespace for each container that does not share its host's.
func (Runtime) Containers(containers []runtime.Container) ([]host.Step, error) {
	var steps []host.Step
	for _, c := range containers {
		switch c.Namespace {
		case "": // shares that of its host
		case c.Name:
			steps = append(steps, host.Namespace{Name: c.Name})
		default:
			return nil, fmt.Errorf(`container %q has namespace %q (valid: its own name, or "" for the host's `+
				"namespace)", c.Name, c.Namespace)
		}
	}
	return steps, nil
}
