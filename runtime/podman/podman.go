package podman

import (
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// Runtime is the runtime "podman".
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
		Name:           "podman",
		Summary:        "Podman makes each container, without a daemon, with a worker as its only process",
		Implementation: "kernel",
		Params: slices.Concat(
			part.List{runtime.CommandParam()}, runtime.RightsParams(true, true), runtime.LimitParams(),
		),
	}
}

// Takes returns what it took on the reference machine, with two containers made at the same time.
func (Runtime) Takes(part.Params) (host, container time.Duration) {
	return 100 * time.Millisecond, 130 * time.Millisecond
}

// Steps returns the steps that make the store and a container.
func (Runtime) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Store{}.Kind():     func() host.Step { return new(Store) },
		Container{}.Kind(): func() host.Step { return new(Container) },
		Alone{}.Kind():     func() host.Step { return new(Alone) },
	}
}

// Check looks for the programs, for cgroups that can set the limits, and for the right to make them.
func (Runtime) Check(p part.Params) error {
	return runtime.Check("Podman", p, runtime.Needed{Program: client, Package: client},
		runtime.Needed{Program: monitor, Package: monitor},
		runtime.Needed{Program: p[runtime.Command], Package: p[runtime.Command]})
}

// Containers makes a store, and a container in each namespace.
func (Runtime) Containers(containers []runtime.Container, p part.Params) (steps []host.Step, err error) {
	if steps, err = runtime.Namespaces(containers); err != nil {
		return nil, err
	}
	for _, c := range containers {
		steps = append(steps, Container{Contained: runtime.Contain(c, p), Command: p[runtime.Command]})
	}
	if len(steps) > 0 {
		steps = append([]host.Step{Store{}}, steps...)
	}
	return steps, nil
}

// Alone returns a step that makes a container by the command alone.
func (Runtime) Alone(container string, p part.Params) host.Step {
	return Alone{Container{Contained: runtime.Contained{Name: container}, Command: p[runtime.Command]}}
}
