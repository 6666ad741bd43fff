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
func (Runtime) Containers(containers []runtime.Container, _ part.Params) ([]host.Step, error) {
	return runtime.Namespaces(containers, nil)
}
