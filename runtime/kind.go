package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/stack"
)

// Kind is the kind of parts that make containers. It lists all runtimes in the order of help; the first is the default.
type Kind []Runtime

// Describe returns the description of the kind.
func (k Kind) Describe() stack.Description {
	d := stack.Description{Name: "runtime", Plural: "runtimes", Summary: "Makes the containers.", Sign: "@"}
	if len(k) > 0 {
		d.Default = k[0].Describe().Name
	}
	return d
}

// Parts lists the runtimes.
func (k Kind) Parts() []stack.Part {
	list := make([]stack.Part, len(k))
	for i, r := range k {
		list[i] = stack.Part{Description: r.Describe(), Value: r}
	}
	return list
}

// Claims returns what the runtime of a stack says about attacks: nothing if its containers have no namespace of their
// own.
func (Kind) Claims(s stack.Stack, _ int) threat.Claims {
	r, _, ok := stack.PartOf[Claimer](s)
	if shared, params, is := stack.PartOf[network.Sharer](s); !ok || is && shared.Shares(params) {
		return nil
	}
	return r.Claims()
}

// Refuse returns why the containers of a stack cannot be in its network. A runtime builds no networks for the
// containers of another one, and those of a daemon of the machine have the network namespaces of containers only.
func (Kind) Refuse(s stack.Stack, _ int) string {
	if _, err := joiner(s); err != nil {
		return err.Error()
	}
	shared, params, is := stack.PartOf[network.Sharer](s)
	shares := is && shared.Shares(params)
	if _, own, ok := stack.PartOf[Runtime](s); ok && own.On(UserNamespace) && shares {
		return "a container with a user namespace has no rights in the network of its host (choose another network, or " +
			UserNamespace + "=false)"
	}
	r, is := borrows(s)
	if !is {
		return ""
	}
	name := r.Describe().Name
	if shares {
		return "the machine's daemon cannot put a container into the network of a host of a lab, only into that of the " +
			"machine (choose another network, or runtime " + name + " with a daemon of its own)"
	}
	if _, own, _ := stack.PartOf[Runtime](s); own.On(UserNamespace) {
		return "user namespaces are a setting of the whole daemon, and the machine's is left as it is (choose " +
			UserNamespace + "=false, or runtime " + name + " with a daemon of its own)"
	}
	if _, params, _ := stack.PartOf[network.Network](s); network.BuiltBy(params) != "" {
		return "the machine's daemon would build the network on the machine, outside of the lab (choose by=nettoll, or " +
			"runtime " + name + " with a daemon of its own)"
	}
	return ""
}

// Check asks the runtime whether it can make containers on this machine and, if it is to, their network.
func (Kind) Check(s stack.Stack) error {
	if c, params, ok := stack.PartOf[Checker](s); ok {
		if err := c.Check(params); err != nil {
			return err
		}
	}
	if j, err := joiner(s); err == nil { // else it is refused
		if c, ok := j.(JoinCheck); ok {
			return c.CheckJoin()
		}
	}
	return nil
}

// CheckOutside asks for the AppArmor profile of the containers of a stack, and for a daemon of the machine if that
// makes them.
func (Kind) CheckOutside(ctx context.Context, s stack.Stack) error {
	if err := checkProfiles(s); err != nil {
		return err
	}
	b, is := borrows(s)
	if !is {
		return nil
	}
	_, err := b.Daemon(ctx)
	return err
}

// BuildTime returns how long the runtime of a stack takes to make the containers of a lab, as a guess.
func (Kind) BuildTime(s stack.Stack, hosts, containers int) (sum time.Duration) {
	if r, params, ok := stack.PartOf[Slow](s); ok {
		daemon, each := r.Takes(params)
		sum = time.Duration(hosts)*daemon + time.Duration(containers)*each
	}
	if j, err := joiner(s); err == nil && j != nil {
		sum += j.JoinTakes()
	}
	return sum
}

// Steps returns the kinds of steps of the runtimes, and those that they share.
func (k Kind) Steps() map[string]func() host.Step {
	all := map[string]func() host.Step{Profiles{}.Kind(): func() host.Step { return new(Profiles) }}
	for _, r := range k {
		if own, ok := r.(host.Stepper); ok {
			maps.Copy(all, own.Steps())
		}
	}
	return all
}

// Build puts the steps that make the containers of each host before all other steps, unless the runtime is to join
// them, too.
func (Kind) Build(site *network.Site, s stack.Stack) error {
	r, params, ok := stack.PartOf[Runtime](s)
	if !ok {
		return errors.New("a stack without a runtime")
	}
	join, err := joiner(s)
	if err != nil {
		return err
	}
	for h := range site.Endpoints {
		containers, plan := ContainersOf(site, h), &site.Plans[h]
		var made []host.Step
		if join != nil {
			plan.Steps, err = join.Join(containers, plan.Steps, params)
		} else if made, err = r.Containers(containers, params); err == nil {
			plan.Steps = slices.Concat(made, plan.Steps)
		}
		if err != nil {
			return fmt.Errorf("runtime %s: %w", r.Describe().Name, err)
		}
	}
	return nil
}

// ContainersOf describes the containers of a host of a lab, which counts from 0.
func ContainersOf(site *network.Site, host int) []Container {
	containers := make([]Container, len(site.Endpoints[host]))
	for i, e := range site.Endpoints[host] {
		at := site.Lab.Hosts[host].Containers[i]
		containers[i] = Container{Name: at.Name, Namespace: e.Namespace}
		if sink := slices.ContainsFunc(site.Pairs, func(p network.Pair) bool {
			return p.Sink == network.Spot{Host: host, Container: i}
		}); network.BuiltBy(site.Lab.Params) != "" && sink && e.PublicIPv4.IsValid() {
			containers[i].Published = at.Ports
		}
	}
	return containers
}
