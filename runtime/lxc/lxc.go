package lxc

import (
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// start is the program that makes a container.
const start = "lxc-start"

// least is the oldest LXC that knows of cgroups of version 2 (linuxcontainers.org/lxc/news/2020_03_25_13_03.html). The
// names of cgroups came after 4.0.0 (lxc.cgroup.dir.container by github.com/lxc/lxc/pull/3353, of April 2020, and
// lxc.cgroup.dir.monitor.pivot by pull 3563, of October 2020), and news of 5.0 have them as new. Which 4.0.x takes them
// was not found out. One that does not refuses the container.
const least = "4.0"

// Runtime is the runtime "lxc".
type Runtime struct{ runtime.Workers }

var (
	_ runtime.Populated  = Runtime{}
	_ runtime.Slow       = Runtime{}
	_ runtime.Checker    = Runtime{}
	_ runtime.Claimer    = Runtime{}
	_ host.Stepper       = Runtime{}
	_ runtime.Commanding = Runtime{}
	_ runtime.Joiner     = Runtime{}
)

// Describe returns the description of the runtime.
func (Runtime) Describe() runtime.Description {
	return runtime.Description{
		Name:           "lxc",
		Summary:        "LXC makes each container, with a worker as its only process",
		Implementation: "kernel",
		Params: slices.Concat(
			runtime.RightsParams(false, false), part.List{runtime.UserNamespaceParam()}, runtime.LimitParams(),
		),
	}
}

// Takes returns what it took on the reference machine, with two containers made at the same time.
func (Runtime) Takes(part.Params) (host, container time.Duration) {
	return 0, 10 * time.Millisecond
}

// Steps returns the step that makes a container.
func (Runtime) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Container{}.Kind(): func() host.Step { return new(Container) },
		Alone{}.Kind():     func() host.Step { return new(Alone) },
		Link{}.Kind():      func() host.Step { return new(Link) },
	}
}

// Check looks for the program, for cgroups that can set the limits, and for the right to make them.
func (Runtime) Check(p part.Params) error {
	if err := runtime.Check("LXC", p, runtime.Needed{Program: start, Package: "lxc", Least: least}); err != nil {
		return err
	}
	return checkUsers(p)
}

// missing says that LXC is not installed.
func missing(what string, err error) error {
	return &linux.UnsupportedError{
		What: what, Missing: `program "` + start + `"`, Hint: "install the package lxc", Err: err,
	}
}

// Containers makes all namespaces, and then a container in each. LXC makes those that belong to user namespaces.
func (Runtime) Containers(containers []runtime.Container, p part.Params) (steps []host.Step, err error) {
	if steps, err = runtime.Namespaces(containers, p); err != nil {
		return nil, err
	}
	for _, c := range containers {
		steps = append(steps, Container{Contained: runtime.Contain(c, p)})
	}
	return slices.Concat(runtime.ShowProfiles(p), steps), nil
}

// Join makes each container with its link, when the links of the host that those need are there. The links are waited
// for at the end, so that the kernel looks for duplicates of all addresses at the same time.
func (Runtime) Join(containers []runtime.Container, network []host.Step, p part.Params) ([]host.Step, error) {
	steps, joints, after, err := runtime.Joints(containers, network)
	if err != nil {
		return nil, err
	}
	var links []host.Step
	for _, j := range joints {
		l, err := linkOf(j)
		if err != nil {
			return nil, err
		}
		steps = append(steps, Container{Contained: runtime.Contain(j.Container, p), Link: &l, Gateways: j.Gateways})
		links = append(links, l)
	}
	return slices.Concat(runtime.ShowProfiles(p), steps, after, links), nil
}

// JoinTakes is how long the kernel looks for duplicates of the IPv6 addresses of containers.
func (Runtime) JoinTakes() time.Duration { return runtime.UniqueTime }

// Alone returns a step that makes a container by the command alone.
func (Runtime) Alone(container string, p part.Params) host.Step {
	return Alone{Container{Contained: runtime.ContainAlone(container, p)}}
}
