package network

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// by is the parameter of networks that a runtime can build, too.
const (
	by      = "by"
	nettoll = "nettoll"
)

// By is the parameter that says who builds a network: nettoll, or a runtime of these names by its own means.
func By(runtimes ...string) part.Param {
	return part.Param{
		Name: by, Default: nettoll, Values: append([]string{nettoll}, runtimes...), Quiet: true,
		Summary: "who builds it: nettoll, or the program that makes the containers, as it does for its users",
	}
}

// BuiltBy returns the runtime that builds the network with these parameters, "" if nettoll does.
func BuiltBy(p part.Params) string {
	if p[by] == nettoll {
		return ""
	}
	return p[by]
}

// A Joiner is a runtime that can join its containers by a network of its own.
type Joiner interface {
	// Joins returns the name of the runtime, as in values of [By].
	Joins() string
	// Bridge returns the steps that join the containers of a host, which the runtime has made, by a bridge.
	Bridge(b Joined) []host.Step
}

// Joined is a bridge and what it joins.
type Joined struct {
	Name, MAC string
	// Gateways are the addresses of the bridge, and the network of each, in CIDR notation.
	Gateways   []string
	MTU        int
	Containers []JoinedContainer
}

// A JoinedContainer is a container on a [Joined] bridge.
type JoinedContainer struct {
	Name, Namespace string
	// Link is the name of its link on the host, Inner that in the container.
	Link, Inner string
	MAC         string // of its own link
	// Addresses has one of each family.
	Addresses []string
}

// joiner returns the runtime of a stack that is to build its network, nil if nettoll is.
func joiner(s stack.Stack) (Joiner, error) {
	_, params, ok := stack.PartOf[Network](s)
	if !ok || BuiltBy(params) == "" {
		return nil, nil //nolint:nilnil // nettoll builds it
	}
	j, _, ok := stack.PartOf[Joiner](s)
	if !ok || j.Joins() != BuiltBy(params) {
		return nil, fmt.Errorf("%s builds networks for its own containers only (hint: --runtime %[1]s)", BuiltBy(params))
	}
	return j, nil
}
