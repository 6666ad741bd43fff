package podman

import (
	"os/exec"
	"path/filepath"
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
	_ runtime.Joiner     = Runtime{}
	_ runtime.JoinCheck  = Runtime{}
)

// Describe returns the description of the runtime.
func (Runtime) Describe() runtime.Description {
	return runtime.Description{
		Name:           "podman",
		Summary:        "Podman makes each container, without a daemon, with a worker as its only process",
		Implementation: "kernel",
		Params: slices.Concat(
			part.List{runtime.CommandParam()}, runtime.RightsParams(true, true),
			part.List{runtime.UserNamespaceParam()}, runtime.LimitParams(),
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
		Network{}.Kind():   func() host.Step { return new(Network) },
		Bridge{}.Kind():    func() host.Step { return new(Bridge) },
		Link{}.Kind():      func() host.Step { return new(Link) },
	}
}

// Check looks for the programs, for cgroups that can set the limits, and for the right to make them. Podman limits the
// number of processes by default (podman-run(1), --pids-limit).
func (Runtime) Check(p part.Params) error {
	if err := runtime.Check("Podman", p, runtime.Needed{Program: client, Package: client, Least: least},
		runtime.Needed{Program: monitor, Package: monitor},
		runtime.NeededCommand(p)); err != nil {
		return err
	}
	if err := runtime.CheckDevices("Podman", p); err != nil {
		return err
	}
	return runtime.CheckControllers("Podman", "pids")
}

// CheckJoin looks for netavark, where Podman does (containers.conf(5), helper_binaries_dir) and in the PATH.
func (Runtime) CheckJoin() error {
	for _, dir := range []string{
		"/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman",
	} {
		if _, err := exec.LookPath(filepath.Join(dir, netavark)); err == nil {
			return nil
		}
	}
	return runtime.Need("make networks by Podman", runtime.Needed{Program: netavark, Package: netavark})
}

// Containers makes a store, and a container in each namespace.
func (Runtime) Containers(containers []runtime.Container, p part.Params) (steps []host.Step, err error) {
	if steps, err = runtime.Namespaces(containers, p); err != nil {
		return nil, err
	}
	for _, c := range containers {
		steps = append(steps, Container{Contained: runtime.Contain(c, p), Command: p[runtime.Command]})
	}
	if len(steps) > 0 {
		steps = slices.Concat(runtime.ShowProfiles(p), []host.Step{Store{}}, steps)
	}
	return steps, nil
}

// Join makes each container with its link, when Podman has a network for it: one for the bridge of the host, or one for
// each link below. Netavark makes the bridge with the first container. The links are waited for at the end, so that the
// kernel looks for duplicates of all addresses at the same time.
func (Runtime) Join(containers []runtime.Container, network []host.Step, p part.Params) ([]host.Step, error) {
	if len(containers) == 0 {
		return network, nil
	}
	before, joints, after, err := runtime.Joints(containers, network)
	if err != nil {
		return nil, err
	}
	steps := append(runtime.ShowProfiles(p), Store{Networks: true})
	var bridges, links []host.Step
	for _, s := range before {
		b, is := s.(host.Bridge)
		if !is || !slices.ContainsFunc(joints, func(j runtime.Joint) bool { return j.On(b.Name) }) {
			steps = append(steps, s)
			continue
		}
		n, err := bridged(b)
		if err != nil {
			return nil, err
		}
		steps, bridges = append(steps, n), append(bridges, Bridge(b))
	}
	var made []host.Step
	noted := map[string]bool{}
	for _, j := range joints {
		l, err := j.LinkBy("Podman", runtime.TypeVeth, runtime.TypeMacvlan)
		if err != nil {
			return nil, err
		}
		if l.Type != runtime.TypeVeth && !noted[l.Lower] {
			n, err := above(l)
			if err != nil {
				return nil, err
			}
			noted[l.Lower], steps = true, append(steps, n)
		}
		made = append(made, Container{
			Contained: runtime.Contain(j.Container, p), Command: p[runtime.Command], Link: (*Link)(&l),
			Published: j.Container.Publishes(),
		})
		links = append(links, Link(l))
	}
	return slices.Concat(steps, made, bridges, after, links), nil
}

// JoinTakes is how long the kernel looks for duplicates of the IPv6 addresses of containers.
func (Runtime) JoinTakes() time.Duration { return runtime.UniqueTime }

// Alone returns a step that makes a container by the command alone.
func (Runtime) Alone(container string, p part.Params) host.Step {
	return Alone{Container{Contained: runtime.ContainAlone(container, p), Command: p[runtime.Command]}}
}
