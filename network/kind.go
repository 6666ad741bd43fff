package network

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
)

// Kind is the kind of parts that join containers to hosts: all of them, in the order of help. The first is the baseline
// of experiments that name none.
type Kind []Network

// Describe says what the kind is.
func (Kind) Describe() stack.Description {
	return stack.Description{
		Name: "network", Plural: "networks", Summary: "Joins a container to its host.",
	}
}

// Parts lists the networks.
func (k Kind) Parts() []stack.Part {
	list := make([]stack.Part, len(k))
	for i, n := range k {
		d := n.Describe()
		list[i] = stack.Part{Description: part.Description{
			Name: d.Name, Summary: d.Summary, Implementation: d.Implementation, Params: d.Params,
			Near: d.Near,
		}, Value: n}
	}
	return list
}

// Steps returns the kinds of steps that networks bring.
func (k Kind) Steps() map[string]func() host.Step {
	all := map[string]func() host.Step{}
	for _, n := range k {
		if own, ok := n.(host.Stepper); ok {
			maps.Copy(all, own.Steps())
		}
	}
	return all
}

// Metrics returns what networks declare.
func (k Kind) Metrics() []measure.Metric {
	var list []measure.Metric
	for _, n := range k {
		list = append(list, n.Describe().Metrics...)
	}
	return list
}

// Refuse returns why the network of a stack means nothing in labs with that number of hosts, see [Excluder].
func (Kind) Refuse(s stack.Stack, hosts int) string {
	x, params, ok := stack.PartOf[Excluder](s)
	if !ok {
		return ""
	}
	return x.Exclude(hosts, params)
}

// BuildTime returns how long the network of a stack takes to build, as a guess: nothing unless it says so, or a runtime
// makes rules for each port.
func (Kind) BuildTime(s stack.Stack, _, containers int) (sum time.Duration) {
	if n, params, ok := stack.PartOf[Slow](s); ok {
		sum = n.Takes(params)
	}
	if p, params, ok := stack.PartOf[Publisher](s); ok && p.Publishes(params) {
		sum += time.Duration(containers) * publishTime
	}
	return sum
}

// publishTime is to publish the ports of a container, and to remove that.
const publishTime = 2 * time.Second

// Check returns why the network of a stack cannot be built on this machine, see [Checker].
func (Kind) Check(s stack.Stack) error {
	c, params, ok := stack.PartOf[Checker](s)
	if !ok {
		return nil
	}
	return c.Check(params)
}

// Claims returns what the network of a stack says about attacks.
func (Kind) Claims(s stack.Stack, hosts int) threat.Claims {
	n, params, ok := stack.PartOf[Network](s)
	if !ok || n.Describe().Claims == nil {
		return nil
	}
	return n.Describe().Claims(hosts, params)
}

// Build begins a site: the plans of its hosts, which reach each other's containers, and the endpoints of these.
func (Kind) Build(site *Site, s stack.Stack) (err error) {
	n, params, ok := stack.PartOf[Network](s)
	if !ok {
		return errors.New("a stack without a network")
	}
	site.Lab.Params = params
	if site.Plans, site.Endpoints, err = Join(n, site.Lab); err != nil {
		return fmt.Errorf("network %s: %w", n.Describe().Name, err)
	}
	return nil
}

// A Builder is a kind whose parts have steps in the plans of a lab.
type Builder interface {
	// Build adds the steps of a stack's part of this kind to the plans of a lab. It is pure. Kinds build in their order.
	Build(site *Site, s stack.Stack) error
}

// Build composes what is between the hosts of a lab, and has each kind add the steps of its part of the stack to their
// plans.
func Build(site *Site, s stack.Stack) (err error) {
	if site.Lab, err = Compose(site.Lab, s); err != nil {
		return err
	}
	for _, c := range s {
		if b, ok := c.Kind.(Builder); ok {
			if err := b.Build(site, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// A Site is a lab while it is planned.
type Site struct {
	// Lab is what was asked for, with the MTU that its containers get. Its Params are those of the network.
	Lab Lab
	// Pairs are the containers that exchange packets.
	Pairs []Pair
	// Families are the address families in which they do.
	Families []string
	// Plans has a plan for each host, Endpoints an endpoint for each of its containers.
	Plans     []host.Plan
	Endpoints [][]Endpoint
}

// A Pair is allowed to talk.
type Pair struct {
	Source, Sink Spot
	// Ports are ports of the sink besides its own, at which programs listen that cannot be told otherwise.
	Ports []uint16
}

// A Spot is where a container is: indices into the hosts of a lab, and into the containers of that host.
type Spot struct{ Host, Container int }
