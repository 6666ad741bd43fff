package control

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
)

const (
	firstPort = 20000 // ports are drawn from [firstPort, lastPort)
	lastPort  = 60000
	// standingLastPort is that on hosts that stand without nettoll, such as nodes of a cluster: there, services have the
	// ports behind it (--service-node-port-range of kube-apiserver), and then the kernel gives its own. Sinks that others
	// reach at their host get theirs from there.
	standingLastPort = 30000
)

// A portRange are ports from first to before last.
type portRange struct{ first, last int }

// portsOf are those of a lab. Hosts of labs have namespaces of their own, unless they stand without nettoll: there all
// those labs share ports whose containers share the namespace of their host. If sinks of some lab get theirs from such
// a host, no lab has ports of that range: all labs have as many.
func (c *configurator) portsOf(l *lab) portRange {
	all := portRange{firstPort, lastPort}
	if _, standing := c.deployment.(deploy.Standing); !standing {
		return all
	}
	if shares(l.Lab) || slices.ContainsFunc(c.resolved.Labs, atHosts) {
		all.last = standingLastPort
	}
	if !shares(l.Lab) {
		return all
	}
	of, at := 0, 0
	for _, other := range c.resolved.Labs {
		if other.ID == l.ID {
			at = of
		}
		if shares(other) {
			of++
		}
	}
	each := (all.last - all.first) / of
	return portRange{all.first + at*each, all.first + (at+1)*each}
}

// shares says whether the containers of a lab share the namespace of their host.
func shares(l experiment.Lab) bool {
	s, params, ok := stack.PartOf[network.Sharer](l.Stack)
	return ok && s.Shares(params)
}

// portsPerVisit is how many ports of a sink a workload has at most where a filter has to know them all: filters that
// hold each port on its own would be lists of ports. The one beyond them is a port that is refused.
// publishedPerVisit is the same where a network has rules for each: Docker makes each by programs that it starts.
const (
	portsPerVisit     = 64
	publishedPerVisit = 8
)

// most is how many ports a sink has at most: 0, which is as many as there are, but where some stack has to know them
// all, and then in all labs alike.
func (c *configurator) most(l *lab) int {
	var each int
	switch {
	case slices.ContainsFunc(c.resolved.Labs, published):
		each = publishedPerVisit
	case slices.ContainsFunc(c.resolved.Labs, filtered):
		each = portsPerVisit
	default:
		return 0
	}
	visits := map[int]bool{}
	for _, cell := range c.resolved.Cells {
		if c.resolved.Labs[cell.Lab].ID == l.ID {
			visits[cell.Visit] = true
		}
	}
	return each*len(visits) + 2 // the first is the proof's
}

// shareOut gives each container of a lab ports of its own from a range, as many to each, in an order from the seed.
// With most, which is not 0, sinks have so many at most, and sources share the rest; half of those of a source are what
// the kernel gives to its sockets that bind to none, so that a filter knows from where a source sends.
func shareOut(hosts []network.Host, in portRange, seed *rand.Rand, most int) error {
	for _, h := range hosts {
		n := len(h.Containers)
		if n == 0 {
			continue
		}
		each := (in.last - in.first) / n
		if each < 2 || each < leastEphemeral && most > 0 {
			return fmt.Errorf("%d containers on a host, but only %d ports for them", n, in.last-in.first)
		}
		isSink := func(c network.Container) bool { return strings.HasPrefix(c.Name, sinkName) }
		ofSource, ofSink := each, each
		if sinks := len(slices.DeleteFunc(slices.Clone(h.Containers), func(c network.Container) bool {
			return !isSink(c)
		})); most > 0 {
			ofSink = min(each, most)
			if sinks < n {
				ofSource = (in.last - in.first - sinks*ofSink) / (n - sinks)
			}
		}
		first := in.first
		for _, i := range seed.Perm(n) {
			c := &h.Containers[i]
			ports := ofSource
			if isSink(*c) {
				ports = ofSink
			}
			c.Ports = network.Ports{First: uint16(first), Last: uint16(first + ports - 1)}
			if most > 0 && !isSink(*c) {
				// The kernel gives ports of one parity before those of the other, and warns of a range that begins and ends with
				// the same (proc_ipv4_local_port_range of net/ipv4/sysctl_net_ipv4.c).
				c.Ports.Last -= uint16(ports / 4 * 2)
				c.Ephemeral = network.Ports{First: c.Ports.Last + 1, Last: uint16(first + ports - 1)}
			}
			first += ports
		}
	}
	return nil
}

// filtered says whether the stack of a lab has a filter.
func filtered(l experiment.Lab) bool {
	f, _ := filter.Of(l.Stack)
	return f != nil
}

// published says whether the network of a lab has a rule for each port.
func published(l experiment.Lab) bool {
	p, params, ok := stack.PartOf[network.Publisher](l.Stack)
	return ok && p.Publishes(params)
}

// atHosts says whether sinks of a lab are reached at their hosts.
func atHosts(l experiment.Lab) bool {
	p, params, ok := stack.PartOf[network.HostPublisher](l.Stack)
	if !ok {
		return false
	}
	_, ok = p.PublishedAt(network.Pair{}, params)
	return ok
}

// leastEphemeral is how many ports a container has at least where half of them are ephemeral.
const leastEphemeral = 4

// specify draws the ports and says what each worker has to open. The first port of a container is left to proofs.
func (c *configurator) specify(l *lab, index int, cells []int) error {
	var visits []int // each has ports of its own
	here := map[int][]int{}
	for _, i := range cells {
		if cell := c.resolved.Cells[i]; cell.Lab == index {
			if here[cell.Visit] == nil {
				visits = append(visits, cell.Visit)
			}
			here[cell.Visit] = append(here[cell.Visit], i)
		}
	}
	_, called := l.generation.turns.(traffic.Called)
	for pair, at := range l.at {
		sourcePorts, sources, err := draw(at.sourcePorts, len(visits), l.generation.seed)
		if err != nil {
			return err
		}
		open := at.sinkPorts
		if filtered(l.Lab) {
			open.Last-- // is refused
		}
		sinkPorts, sinks, err := draw(open, len(visits), l.generation.seed)
		if err != nil {
			return err
		}
		for k, visit := range visits {
			i, takesPart := c.at(pair, here[visit])
			if !takesPart {
				continue
			}
			cell := c.resolved.Cells[i]
			spec := workload.Spec{
				Workload: cell.Cell.Workload, Params: cell.Params, Pair: pair,
				Congestion: cmp.Or(l.Congestion, c.congestion), Plant: cell.Plant,
				LocalPorts: sources, RemotePorts: sinks, Seed: c.seed(l.generation.number, pair),
				// Turns pass by calls where hosts are machines of their own, each with its clock.
				OwnClock: called && at.sourceHost != at.sinkHost,
			}
			if cell.Driver != nil {
				spec.Driver = cell.Driver.Describe().Name
			}
			for _, w := range l.workers {
				seat := slices.Index(w.pairs, pair)
				if seat < 0 {
					continue
				}
				end := worker.EndpointSpec{Cell: i, Visit: visit, Seat: seat, Spec: spec}
				end.Spec.Side = w.side
				near, far, nearPort, farPort := at.source, at.sink, sourcePorts[k], sinkPorts[k]
				if w.side == workload.Sink {
					near, far, nearPort, farPort = at.sink, at.source, sinkPorts[k], sourcePorts[k]
					end.Spec.LocalPorts, end.Spec.RemotePorts = sinks, sources
				}
				end.Namespace = near.Namespace
				end.Spec.Local = netip.AddrPortFrom(near.Bind(cell.Family), nearPort)
				end.Spec.Remote = netip.AddrPortFrom(far.Public(cell.Family), farPort)
				w.specs = append(w.specs, end)
			}
		}
	}
	return nil
}

// at returns which of the cells of a visit has a pair, false if none has.
func (c *configurator) at(pair int, cells []int) (int, bool) {
	i := slices.IndexFunc(cells, func(i int) bool { return c.resolved.Cells[i].Has(pair) })
	if i < 0 {
		return 0, false
	}
	return cells[i], true
}

// seed is what the schedules of a pair begin with, in all stacks of a generation alike.
func (c *configurator) seed(generation, pair int) uint64 {
	return rand.New(rand.NewPCG(c.resolved.Experiment.Design.Seed, uint64(generation)<<32|uint64(pair))).Uint64()
}

// draw shares a container's ports, other than the first, out to n visits in random order. It returns the first port of
// each and how many follow each other from there on.
func draw(p network.Ports, n int, seed *rand.Rand) (first []uint16, each int, err error) {
	rest := int(p.Last - p.First)
	if n > rest {
		return nil, 0, fmt.Errorf("%d visits to one lab, but each container has only %d ports: measure fewer workloads at "+
			"once, or fewer pairs", n, rest)
	}
	first = make([]uint16, n)
	each = rest / n
	for i, at := range seed.Perm(n) {
		first[i] = p.First + 1 + uint16(at*each)
	}
	return first, each, nil
}
