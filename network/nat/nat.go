package nat

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// table is the name of the table of nftables on each host.
const table = "nettoll"

// hairpin is the name of the parameter.
const hairpin = "hairpin"

// Network is the network "nat".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Metrics: declared(),
		Name:    "nat",
		Summary: "a Linux bridge on each host; other hosts reach its containers at the host's address and published ports " +
			"(nftables)",
		Implementation: "kernel",
		Near:           near,
		Claims:         claims,
		Params: append(part.List{
			network.By(network.ByDocker, network.ByLXC, network.ByPodman),
			part.Switch(hairpin, "translate between containers of the same host too"),
			{
				Name: entriesName, Default: "0", Check: checkEntries, Quiet: true,
				Summary: "unused translations that fill each host's table, 0 to 100000",
			},
			network.BridgeNF(),
		}, network.LinkParams()...),
	}
}

// claims are those of a switch that learns, and of a host that tracks connections. The ports of our own bridge are
// isolated: a frame for another container goes nowhere (net/bridge/br_private.h, br_skb_isolated).
func claims(_ int, p part.Params) threat.Claims {
	own := slices.Concat(network.Passes(), network.Floods("the bridge"), threat.Leaves(
		"two containers that may talk can fill the table of translations, which their host has for all", threat.Starvation))
	if network.RuledBy(p) != "" {
		return own
	}
	return slices.Concat(own, threat.Withstands(threat.Misdirected, threat.Stray))
}

// Check says which of the parameters cannot be had here.
func (Network) Check(p part.Params) error { return network.CheckLinks(p) }

// Steps are the kinds of steps of its own.
func (Network) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Translation{}.Kind(): func() host.Step { return new(Translation) },
		Entries{}.Kind():     func() host.Step { return new(Entries) },
	}
}

// Tracked is how many connections it has each host track before any traffic.
func (Network) Tracked(p part.Params) int {
	n, _ := strconv.Atoi(p[entriesName]) // checked; none in a lab that gives no parameters
	return n
}

// Exclude leaves out labs of one host in which nothing would be translated.
func (Network) Exclude(hosts int, p part.Params) string {
	if by := network.RuledBy(p); by != "" {
		switch {
		case hosts == 1:
			return "on one host the containers of " + by + " talk without translation"
		case (Network{}).Tracked(p) > 0:
			return "the table of translations of " + by + " is not filled: leave out " + entriesName
		}
	}
	if (Network{}).Translates(hosts, p) {
		return ""
	}
	return "on one host nat equals bridge, because containers talk without translation (set hairpin=true to translate)"
}

// Translates says where it does.
func (Network) Translates(hosts int, p part.Params) bool { return hosts > 1 || p.On(hairpin) }

// Publishes says that a runtime has a rule for each port of a container.
func (Network) Publishes(p part.Params) bool { return network.RuledBy(p) != "" }

// Unfilterable says why a network that a runtime builds has no filter.
func (Network) Unfilterable(_ int, p part.Params) string {
	if by := network.RuledBy(p); by != "" {
		return "filters are not built beside the firewall of " + by
	}
	return ""
}

// FilterPoint says that packets can be filtered where the host forwards: what it translates it routes.
func (Network) FilterPoint(part.Params) (network.Point, string) { return network.AtForward, "" }

// StaticNeighbours says that large labs have static neighbour entries.
func (Network) StaticNeighbours() {}

// Trace says that packets pass the bridge and, if they are translated, the network stack of each host.
func (n Network) Trace(t network.Trip) network.Way {
	return t.Bridged(n.Translates(len(t.Lab.Hosts), t.Lab.Params))
}

// Serves returns the addresses of the host, by which its containers are known.
func (Network) Serves(lab network.Lab, h network.Host) []netip.Prefix { return lab.Own(h) }

// Build makes a bridge on each host, with a port for every container, and the translation.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		steps := network.Base(lab, h)
		translated := len(lab.Hosts) > 1 || lab.Params.On(hairpin)
		if translated {
			steps = append(steps, network.Forwarding()...)
		}
		bridged, theirs, err := network.Bridged(lab, h, translated)
		if err != nil {
			return nil, nil, err
		}
		steps = slices.Concat(steps, bridged, network.Tuned(lab.Params, theirs))
		if translated {
			step, err := translate(lab, h, theirs)
			if err != nil {
				return nil, nil, err
			}
			if network.RuledBy(lab.Params) != "" { // it translates, too
				plans[i], ends[i] = host.Plan{Steps: steps}, theirs
				continue
			}
			steps = append(steps, step)
			// else containers of one host would reach each other past all translation, and past a filter where the host forwards
			for _, e := range theirs {
				steps = append(steps, host.LinkSettings{Name: e.Link, Isolated: true})
			}
			filled, err := fill(h, step, (Network{}).Tracked(lab.Params))
			if err != nil {
				return nil, nil, err
			}
			steps = append(steps, filled)
		}
		plans[i], ends[i] = host.Plan{Steps: steps}, theirs
	}
	return plans, ends, nil
}

// translate returns the step that translates for the containers of a host. It notes in their endpoints under which
// addresses others know them: those at which other hosts reach theirs or, with one host, those of its bridge.
func translate(lab network.Lab, h network.Host, ends []network.Endpoint) (Translation, error) {
	range4, range6 := network.Gateway(h.Index)
	public4, public6 := range4.Addr(), range6.Addr()
	if h.Uplink != "" {
		public4, public6 = lab.Address(h)
	}
	step := Translation{
		Table:   table,
		Public:  []string{public4.String(), public6.String()},
		Sources: []string{range4.Masked().String(), range6.Masked().String()},
	}
	for i, c := range h.Containers {
		if c.Ports.First == 0 {
			return Translation{}, fmt.Errorf("host %d: container %q has no ports to publish", h.Index, c.Name)
		}
		ends[i].PublicIPv4, ends[i].PublicIPv6 = public4, public6
		step.Published = append(step.Published, Publication{
			First: c.Ports.First, Last: c.Ports.Last,
			To: []string{ends[i].IPv4.String(), ends[i].IPv6.String()},
		})
	}
	byPort := slices.SortedFunc(slices.Values(h.Containers), func(a, b network.Container) int {
		return cmp.Compare(a.Ports.First, b.Ports.First)
	})
	for i := 1; i < len(byPort); i++ {
		if a, b := byPort[i-1], byPort[i]; a.Ports.Last >= b.Ports.First {
			return Translation{}, fmt.Errorf("host %d: containers %q and %q both have port %d, but share one public "+
				"address", h.Index, a.Name, b.Name, b.Ports.First)
		}
	}
	return step, nil
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"docker", "docker0", "podman"},
			Why:   "its default is a bridge whose containers other hosts reach at published ports",
		},
	}
}
