package proof

import (
	"net/netip"
	"os"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/rights"
)

// A Lab is what claims are made of and what is attacked: where its containers are, which of them may talk, and what it
// has. It knows no network and no filter by name.
type Lab struct {
	Hosts []Host
	// Routers join the hosts.
	Routers  []Router
	Pairs    []Pair
	Families []string // "ipv4", "ipv6": those in which its pairs may talk; without a filter, both
	MTU      int      // bytes
	// Filtered says that a filter stands: of what is not allowed nothing may arrive.
	Filtered bool
	// Stateful says that answers pass by connection tracking, and that otherwise they pass by rules of their own.
	Stateful bool
	// Published says that others reach sinks alone, at published ports: a source gets answers, and nothing that only looks
	// like one.
	Published bool
	// Inside says that the filter stands inside the containers, behind their links.
	Inside bool
	// Uncounted are workloads of which nobody knows how many packets their trials take.
	Uncounted []string
	// Patience is that with packets between its hosts.
	Patience Patience
}

// A Host is one of a lab's.
type Host struct {
	Name       string // "host1"
	Containers []Container
}

// A Router is one of the underlay, in a network namespace there; "" is the underlay's own.
type Router struct{ Name, Namespace string }

// A Container is an end that sends and receives.
type Container struct {
	Name      string // "src0": no other container of the lab is called so
	Namespace string // its network namespace, "" where it shares its host's
	// Link is the name of the host's link to it, "" where there is none, and Inner that of its own.
	Link, Inner string
	// IPv4 and IPv6 are its addresses, PublicIPv4 and PublicIPv6 those at which others reach it.
	IPv4, IPv6, PublicIPv4, PublicIPv6 netip.Addr
	// First and Last are its ports. The last one of a sink is not on the list.
	First, Last uint16
	// Capabilities are those that its root has, as in [rights.Rights]; nil if it is only a network namespace, in which
	// this process has all of its own.
	Capabilities *uint64
}

// Within calls f in a network namespace with no capabilities but those of the container's root. So the kernel itself
// decides what it may send. What f has opened keeps what it was opened with.
func (c Container) Within(ns *os.File, f func() error) error {
	if c.Capabilities == nil {
		return netns.Do(int(ns.Fd()), f)
	}
	return netns.Spend(int(ns.Fd()), func() error {
		if err := rights.Keep(*c.Capabilities); err != nil {
			return err
		}
		return f()
	})
}

// A Pair names two containers. Its source may send to the ports of its sink.
type Pair struct{ Source, Sink string }

// Own is its address of a family.
func (c Container) Own(v6 bool) netip.Addr {
	if v6 {
		return c.IPv6
	}
	return c.IPv4
}

// Public is where others reach it.
func (c Container) Public(v6 bool) netip.Addr {
	if v6 {
		return c.PublicIPv6
	}
	return c.PublicIPv4
}

// Targets are the addresses that a packet for it can have.
func (c Container) Targets(v6 bool) []netip.Addr {
	if c.Own(v6) == c.Public(v6) {
		return []netip.Addr{c.Own(v6)}
	}
	return []netip.Addr{c.Public(v6), c.Own(v6)}
}

// container finds one by its name. A lab whose pairs name none that it has is a mistake of its description.
func (l Lab) container(name string) Container {
	for _, h := range l.Hosts {
		for _, c := range h.Containers {
			if c.Name == name {
				return c
			}
		}
	}
	panic("proof: the lab has no container " + name)
}
