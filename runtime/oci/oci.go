package oci

import (
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// Runtime is the runtime "oci".
type Runtime struct{ runtime.Workers }

var (
	_ runtime.Populated  = Runtime{}
	_ runtime.Slow       = Runtime{}
	_ runtime.Checker    = Runtime{}
	_ runtime.Claimer    = Runtime{}
	_ host.Stepper       = Runtime{}
	_ runtime.Commanding = Runtime{}
)

// Describe returns the description of the runtime.
func (Runtime) Describe() runtime.Description {
	return runtime.Description{
		Name:           "oci",
		Summary:        "runc or crun makes each container, with a worker as its only process",
		Implementation: "kernel",
		Params: slices.Concat(
			part.List{runtime.CommandParam()}, runtime.RightsParams(false, false),
			part.List{runtime.UserNamespaceParam()}, runtime.LimitParams(),
		),
	}
}

// Takes returns what it took on the reference machine, with two containers made at the same time.
func (Runtime) Takes(part.Params) (host, container time.Duration) {
	return 0, 15 * time.Millisecond
}

// Steps returns the step that makes a container.
func (Runtime) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Container{}.Kind(): func() host.Step { return new(Container) },
		Alone{}.Kind():     func() host.Step { return new(Alone) },
	}
}

// Check looks for the program, for cgroups that can set the limits, and for the right to make them.
func (Runtime) Check(p part.Params) error {
	return runtime.Check(p[runtime.Command], p, runtime.NeededCommand(p))
}

// Containers makes all namespaces, and then a container in each. The runtime makes those that belong to user
// namespaces.
func (Runtime) Containers(containers []runtime.Container, p part.Params) (steps []host.Step, err error) {
	if steps, err = runtime.Namespaces(containers, p); err != nil {
		return nil, err
	}
	for _, c := range containers {
		steps = append(steps, Container{Contained: runtime.Contain(c, p), Command: p[runtime.Command]})
	}
	return slices.Concat(runtime.ShowProfiles(p), steps), nil
}

// Alone returns a step that makes a container by the command alone.
func (Runtime) Alone(container string, p part.Params) host.Step {
	return Alone{Container{Contained: runtime.ContainAlone(container, p), Command: p[runtime.Command]}}
}
