package docker

import (
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// Names of parameters, and the values of use.
const (
	proxy      = "proxy"
	use        = "use"
	own        = "own"
	theMachine = "machine"
)

// Runtime is the runtime "docker".
type Runtime struct{ runtime.Workers }

var (
	_ runtime.Populated  = Runtime{}
	_ runtime.Slow       = Runtime{}
	_ runtime.Checker    = Runtime{}
	_ runtime.Claimer    = Runtime{}
	_ host.Stepper       = Runtime{}
	_ runtime.Joiner     = Runtime{}
	_ runtime.Commanding = Runtime{}
	_ runtime.Borrower   = Runtime{}
	_ runtime.Loader     = Runtime{}
)

// Describe returns the description of the runtime.
func (Runtime) Describe() runtime.Description {
	return runtime.Description{
		Name:           "docker",
		Summary:        "Docker makes each container, with a worker as its only process",
		Implementation: "kernel",
		Params: slices.Concat(runtime.RightsParams(true, true), part.List{
			{
				Name: use, Default: own, Values: []string{own, theMachine}, Quiet: true,
				Summary: "whose daemon makes the containers; own: each host starts one; machine: the one that the command " +
					"docker uses here (DOCKER_HOST), in which nettoll makes and removes containers and an image, with the label " +
					"nettoll.run",
			},
			part.Switch(proxy, "with by=docker, a docker-proxy for each published port, as Docker has it by default; only the "+
				"host itself uses them, and each is a process"),
			runtime.UserNamespaceParam(),
		}, runtime.LimitParams()),
	}
}

// Takes returns what it took on the reference machine, with two containers made at the same time.
func (r Runtime) Takes(p part.Params) (host, container time.Duration) {
	if r.Borrows(p) {
		return 100 * time.Millisecond, 150 * time.Millisecond
	}
	return 500 * time.Millisecond, 150 * time.Millisecond
}

// Steps returns the steps that make the daemon, a container, and a network that joins it.
func (Runtime) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Users{}.Kind():      func() host.Step { return new(Users) },
		Containerd{}.Kind(): func() host.Step { return new(Containerd) },
		Daemon{}.Kind():     func() host.Step { return new(Daemon) },
		Container{}.Kind():  func() host.Step { return new(Container) },
		Bridge{}.Kind():     func() host.Step { return new(Bridge) },
		Network{}.Kind():    func() host.Step { return new(Network) },
		Overlay{}.Kind():    func() host.Step { return new(Overlay) },
		Join{}.Kind():       func() host.Step { return new(Join) },
		Alone{}.Kind():      func() host.Step { return new(Alone) },
		Machine{}.Kind():    func() host.Step { return new(Machine) },
	}
}

// Check looks for the programs, for cgroups that can set the limits, and for the right to make them.
func (r Runtime) Check(p part.Params) error {
	if r.Borrows(p) {
		return runtime.Check(ours, p, runtime.Needed{Program: client, Package: pkg, Least: least})
	}
	return runtime.Check("Docker", p, runtime.Needed{Program: dockerd, Package: pkg, Least: least},
		runtime.Needed{Program: client, Package: pkg, Least: least},
		runtime.Needed{Program: containerd, Package: containerd})
}

// Loads returns docker-default, without which no daemon of a host makes containers.
func (r Runtime) Loads(p part.Params) []string {
	if r.Borrows(p) {
		return nil
	}
	return []string{runtime.DefaultProfile}
}

// Borrows reports whether the machine's daemon makes the containers.
func (Runtime) Borrows(p part.Params) bool { return p[use] == theMachine }

// Containers makes a daemon, or an image in that of the machine, and a container in each namespace.
func (r Runtime) Containers(containers []runtime.Container, p part.Params) (steps []host.Step, err error) {
	for _, c := range containers {
		if _, err := c.Own(); err != nil {
			return nil, err
		}
		steps = append(steps, Container{
			Contained: runtime.Contain(c, p), Published: c.Publishes(), Machine: r.Borrows(p),
		})
	}
	switch {
	case len(steps) == 0:
	case r.Borrows(p):
		steps = append([]host.Step{Machine{}}, steps...)
	default:
		d := []host.Step{Containerd{}, Daemon{Proxy: p.On(proxy), Users: p.On(runtime.UserNamespace)}}
		if p.On(runtime.UserNamespace) {
			d = slices.Insert(d, 0, host.Step(Users{}))
		}
		steps = slices.Concat(runtime.ShowProfiles(p), d, steps)
	}
	return steps, nil
}

// Join makes the containers, in the place of the bridge of the host a network of Docker's driver bridge, in the place
// of links on top of another one a network of Docker's driver for those, and in the place of a segment over all hosts
// one of the driver overlay. It then connects each container.
func (r Runtime) Join(containers []runtime.Container, network []host.Step, p part.Params) ([]host.Step, error) {
	network, overlays := overlaid(network)
	steps, err := r.Containers(containers, p)
	if err != nil || len(steps) == 0 {
		return append(steps, network...), err
	}
	before, joints, after, err := runtime.Joints(containers, network)
	if err != nil {
		return nil, err
	}
	for _, s := range before {
		if b, is := s.(host.Bridge); is && slices.ContainsFunc(joints, func(j runtime.Joint) bool { return j.On(b.Name) }) {
			for i, s := range steps {
				if d, is := s.(Daemon); is {
					d.Networks = true
					steps[i] = d
				}
			}
			s = Bridge{Name: b.Name, MAC: b.MAC, MTU: b.MTU, Gateways: b.Addresses}
		}
		steps = append(steps, s)
	}
	networks, joins, err := connected(joints)
	return slices.Concat(steps, overlays, networks, joins, after), err
}

// JoinTakes is nothing: Docker adds IPv6 addresses that can be used at once.
func (Runtime) JoinTakes() time.Duration { return 0 }

// Alone returns a step that makes a container by the command alone.
func (r Runtime) Alone(container string, p part.Params) host.Step {
	return Alone{Container{Contained: runtime.ContainAlone(container, p), Machine: r.Borrows(p)}}
}
