package netns

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
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
func (Runtime) Containers(containers []runtime.Container, _ part.Params) (steps []host.Step, err error) {
	for _, c := range containers {
		own, err := c.Own()
		if err != nil {
			return nil, err
		}
		steps = append(steps, own...)
	}
	return steps, nil
}
