package containerd

import (
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// Runtime is the runtime "containerd".
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
		Name:           "containerd",
		Summary:        "containerd makes each container, by a daemon of each host, with a worker as its only process",
		Implementation: "kernel",
		Params: slices.Concat(
			part.List{runtime.CommandParam()}, runtime.RightsParams(false, false),
			part.List{runtime.UserNamespaceParam()}, runtime.LimitParams(),
		),
	}
}

// Takes returns what it took on the reference machine, with two containers made at the same time.
func (Runtime) Takes(part.Params) (host, container time.Duration) {
	return 100 * time.Millisecond, 80 * time.Millisecond
}

// Steps returns the steps that make the daemon and a container.
func (Runtime) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Daemon{}.Kind():    func() host.Step { return new(Daemon) },
		Container{}.Kind(): func() host.Step { return new(Container) },
		Alone{}.Kind():     func() host.Step { return new(Alone) },
	}
}

// Check looks for the programs, for cgroups that can set the limits, and for the right to make them.
func (Runtime) Check(p part.Params) error {
	if err := runtime.Check("containerd", p, runtime.Needed{Program: daemon, Package: daemon, Least: least},
		runtime.Needed{Program: client, Package: daemon, Least: least}, runtime.NeededCommand(p)); err != nil {
		return err
	}
	if err := runtime.CheckDevices("containerd", p); err != nil {
		return err
	}
	return runtime.CheckControllers("containerd", "cpu") // ctr sets shares of CPU time in any case (--cpu-shares)
}

// Containers makes a daemon and all namespaces, and then a container in each.
func (Runtime) Containers(containers []runtime.Container, p part.Params) (steps []host.Step, err error) {
	if steps, err = runtime.Namespaces(containers, p); err != nil {
		return nil, err
	}
	for _, c := range containers {
		steps = append(steps, Container{Contained: runtime.Contain(c, p), Command: p[runtime.Command]})
	}
	if len(steps) > 0 {
		steps = slices.Concat(runtime.ShowProfiles(p), []host.Step{Daemon{}}, steps)
	}
	return steps, nil
}

// Alone returns a step that makes a container by the command alone.
func (Runtime) Alone(container string, p part.Params) host.Step {
	return Alone{Container{Contained: runtime.ContainAlone(container, p), Command: p[runtime.Command]}}
}
