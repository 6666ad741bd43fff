package netns

import (
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/runtime"
)

// Runtime is the runtime "netns".
type Runtime struct{}

var (
	_ runtime.Checker = Runtime{}
	_ runtime.Claimer = Runtime{}
	_ runtime.Grouper = Runtime{}
	_ host.Stepper    = Runtime{}
)

// Describe returns the description of the runtime.
func (Runtime) Describe() runtime.Description {
	return runtime.Description{
		Name:           "netns",
		Summary:        "each container is only a network namespace",
		Implementation: "kernel",
		Params: part.List{{
			Name: group, Default: inherited, Values: []string{inherited, own}, Quiet: true,
			Summary: "control group of the workers beside the containers: inherited, that of nettoll; or own, one for each in " +
				"the first level, as containers of oci and lxc have",
		}},
	}
}

// The parameter for the control group of workers, and its values.
const (
	group     = "group"
	inherited = "inherited"
	own       = "own"
)

// Grouped implements [runtime.Grouper].
func (Runtime) Grouped(p part.Params) bool { return p[group] == own }

// Steps returns the step that makes control groups.
func (Runtime) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Group{}.Kind(): func() host.Step { return new(Group) }}
}

// Check wants control groups that can be made, for those that are to have one.
func (r Runtime) Check(p part.Params) error {
	if !r.Grouped(p) {
		return nil
	}
	return cgroup.Usable("give workers a control group (" + group + "=" + own + ")")
}

// Claims says that abstract unix sockets belong to a network namespace (unix(7)).
func (Runtime) Claims() threat.Claims { return threat.Withstands(threat.Abstract) }

// Containers makes a namespace for each container that does not share its host's, and the groups of workers.
func (r Runtime) Containers(containers []runtime.Container, p part.Params) ([]host.Step, error) {
	steps, err := runtime.Namespaces(containers, nil)
	if err == nil && r.Grouped(p) {
		steps = append(steps, Group{})
	}
	return steps, err
}
