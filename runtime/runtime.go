package runtime

import (
	"fmt"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
)

// A Runtime makes containers. Optional abilities of a runtime, such as starting a process inside a container, are
// separate interfaces of one method.
type Runtime interface {
	// Describe returns the description of the runtime.
	Describe() Description
	// Containers returns the steps that make the containers of a host, in their order. It is pure. Undoing a step ends
	// its containers and everything in them. Such steps implement [host.FirstUndone]. Every parameter is present.
	Containers(containers []Container, p part.Params) ([]host.Step, error)
}

// A Description describes a runtime.
type Description = part.Description

// A Claimer is a runtime that says what its containers protect against if each has a network namespace of its own.
type Claimer interface {
	Runtime
	// Claims returns that.
	Claims() threat.Claims
}

// A Checker is a runtime that needs something of the machine.
type Checker interface {
	Runtime
	// Check returns a [linux.UnsupportedError] if containers cannot be made on this machine. It changes nothing.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Check(p part.Params) error
}

// A Container describes a container that a runtime makes.
type Container struct {
	// Name is unique on its host: "src0".
	Name string
	// Namespace refers to the network namespace of the container, as in the steps of plans and in the network's
	// endpoint. It is the container's name if the container has its own namespace, and "" if it shares that of its
	// host.
	Namespace string
	// Published are ports at which other hosts reach it at the address of its host, if the runtime builds its network.
	// The zero value means none.
	Published network.Ports
}

// Own returns a step that makes the network namespace of a container, or none if it shares that of its host.
func (c Container) Own() ([]host.Step, error) {
	switch c.Namespace {
	case "":
		return nil, nil
	case c.Name:
		return []host.Step{host.Namespace{Name: c.Name}}, nil
	}
	return nil, fmt.Errorf(`container %q has namespace %q (valid: its own name, or "" for the host's namespace)`, c.Name,
		c.Namespace)
}

// Publishes returns the published ports of a container as 'docker run' has them, such as "20000-20065"; "" for none.
func (c Container) Publishes() string {
	if c.Published == (network.Ports{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", c.Published.First, c.Published.Last)
}

// Publish returns flags of 'docker run' and 'podman run' that publish ports, for TCP and UDP; none for "".
func Publish(ports string) (flags []string) {
	if ports == "" {
		return nil
	}
	for _, protocol := range []string{"tcp", "udp"} {
		flags = append(flags, "--publish", ports+":"+ports+"/"+protocol)
	}
	return flags
}

// Slow is a runtime that takes longer than a moment to make a container.
type Slow interface {
	Runtime
	// Takes returns how long it takes for each host, and for each container, to be made and removed, as a guess
	// (docs/lifecycle.md).
	Takes(p part.Params) (host, container time.Duration)
}

// Namespaces returns the steps that make the network namespaces of containers. With a user namespace each container
// makes its own, which then belongs to it.
func Namespaces(containers []Container, p part.Params) (steps []host.Step, err error) {
	for _, c := range containers {
		own, err := c.Own()
		if err != nil {
			return nil, err
		}
		if !p.On(UserNamespace) {
			steps = append(steps, own...)
		}
	}
	return steps, nil
}

// A Populated runtime has containers with processes of their own: a worker runs in each container. For other runtimes,
// one worker runs on the host for all sources there, and one for all sinks.
type Populated interface {
	Runtime
	// Populated reports whether containers with these parameters have processes of their own.
	Populated(p part.Params) bool
}

// Inside reports whether workers run inside the containers of a stack.
func Inside(s stack.Stack) bool {
	p, params, ok := stack.PartOf[Populated](s)
	return ok && p.Populated(params)
}

// An Equipped runtime is one in whose containers a worker may find other programs, because users choose the image.
// Whoever deploys it says whether a program is there.
type Equipped interface {
	Populated
	// Equipped marks it.
	Equipped()
}

// Bare reports whether the containers of a stack hold nettoll alone.
func Bare(s stack.Stack) bool {
	_, _, equipped := stack.PartOf[Equipped](s)
	return Inside(s) && !equipped
}

// A Grouper is a runtime that may give the workers beside containers a control group of the first level.
type Grouper interface {
	Runtime
	// Grouped reports whether it does with these parameters.
	Grouped(p part.Params) bool
}

// A Commanding runtime makes containers by a command that users give by hand, too.
type Commanding interface {
	Runtime
	// Alone returns a step that gives this command as a user does who has nothing else: no worker, and no network of a
	// lab. It has to follow steps of [Runtime.Containers], which start a daemon if there is one. See [Alone].
	Alone(container string, p part.Params) host.Step
}
