package runtime

import (
	"errors"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// A Joiner is a runtime that can join its containers to a network by its own means.
type Joiner interface {
	Runtime
	// Join returns the steps of a host: those that make its containers, and those that build its network, of which the
	// runtime replaces what it makes itself. See [Joints]. It is pure. Every parameter is present.
	Join(containers []Container, network []host.Step, p part.Params) ([]host.Step, error)
	// JoinTakes returns how much longer it takes until a lab stands whose network the runtime builds, as a guess.
	JoinTakes() time.Duration
}

// JoinCheck is a Joiner that needs more of the machine to build networks than to make containers.
type JoinCheck interface {
	Joiner
	// CheckJoin returns a [linux.UnsupportedError] if the runtime cannot build networks on this machine.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	CheckJoin() error
}

// joiner returns the runtime of a stack that is to build its network, nil if nettoll is.
func joiner(s stack.Stack) (Joiner, error) {
	_, params, ok := stack.PartOf[network.Network](s)
	if !ok || network.BuiltBy(params) == "" {
		return nil, nil //nolint:nilnil // nettoll builds it
	}
	j, _, ok := stack.PartOf[Joiner](s)
	if by := network.BuiltBy(params); !ok || j.Describe().Name != by {
		return nil, fmt.Errorf("%s builds networks for its own containers only (hint: --runtime %[1]s)", by)
	}
	return j, nil
}

// A Joint is what joins a container to a network.
type Joint struct {
	Container Container
	// Link is the step by which nettoll would make the link of the container: a [host.Veth] whose peer is in the
	// container, a [host.MoveLink], or a step that is based on a [host.Upper].
	Link host.Step
	// Gateways are the addresses of its default routes; "" is a route that names the link alone.
	Gateways []string
}

// On reports whether the link is a port of that bridge.
func (j Joint) On(bridge string) bool {
	v, is := j.Link.(host.Veth)
	return is && v.Master == bridge
}

// Based is a step that makes a link above another one.
type Based interface {
	host.Step
	Base() host.Upper
}

// joins returns the namespace that a step gives a link, "" if it makes none or gives it to the host.
func joins(s host.Step) string {
	switch s := s.(type) {
	case host.Veth:
		return s.PeerNS
	case host.MoveLink:
		return s.NS
	case Based:
		return s.Base().NS
	}
	return ""
}

// Joints splits the steps of a network where its containers are joined. Those before come first in the plan, and those
// after last. Settings of a container from before it has its link are left out: the runtime makes its namespace
// together with the link. If a container has no link, that is an error.
func Joints(containers []Container, steps []host.Step) (
	before []host.Step, joints []Joint, after []host.Step, err error,
) {
	places := map[string]int{}
	joints = make([]Joint, len(containers))
	for i, c := range containers {
		if c.Namespace == "" {
			return nil, nil, nil, errors.New("a container that shares the network of its host has no link of its own")
		}
		places[c.Namespace], joints[i].Container = i, c
	}
	joined := false
	for _, s := range steps {
		if at, is := places[joins(s)]; is {
			joints[at].Link, joined = s, true
			continue
		}
		if r, is := s.(host.Route); is && (r.To == "0.0.0.0/0" || r.To == "::/0") {
			if at, is := places[r.NS]; is {
				joints[at].Gateways = append(joints[at].Gateways, r.Via)
				continue
			}
		}
		if set, is := s.(host.Sysctl); is {
			if at, is := places[set.NS]; is && joints[at].Link == nil {
				continue
			}
		}
		if joined {
			after = append(after, s)
		} else {
			before = append(before, s)
		}
	}
	for _, j := range joints {
		if j.Link == nil {
			return nil, nil, nil, fmt.Errorf("container %s has no link of its own", j.Container.Name)
		}
	}
	return before, joints, after, nil
}
