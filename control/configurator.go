package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/shm"
	"github.com/nettoll/nettoll/internal/linux/softirq/probe"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/worker"
	"github.com/nettoll/nettoll/workload"
)

const (
	buildLimit = 30 * time.Second      // for all labs of a generation, and more for each container: see patience
	buildEach  = 40 * time.Millisecond // for a container, which takes 2 to 4 where nothing else is busy
	loadEach   = time.Millisecond      // for a rule of a filter on a host, loaded, changed and verified: a hundred thousand of them take half a minute where the kernel walks them all
	loadAlone  = 2 * time.Second       // for a lab that has the machine for itself meanwhile
	callLimit  = 10 * time.Second      // for one call to a worker or an agent
	// builders is how many labs are built at the same time: two threads help, more do not (creating links is serialised in the
	// kernel).
	builders = 4

	uplink = "up0" // a host's link to the underlay

	sourceName, sinkName = "src", "snk" // of containers, before their number

	firstPort = 20000 // ports are drawn from [firstPort, lastPort)
	lastPort  = 60000
)

// placing says which CPUs sources and sinks run on.
type placing struct {
	sources, sinks []int
}

// place decides it. With one CPU there is nothing to decide.
func place(affinity string, cpus []int) (placing, error) {
	half := (len(cpus) + 1) / 2
	switch {
	case affinity == "free":
		return placing{}, nil
	case affinity == "same" || affinity == "split" && len(cpus) == 1:
		return placing{cpus[:half], cpus[:half]}, nil
	case affinity == "split":
		return placing{cpus[:half], cpus[half:]}, nil
	}
	return placing{}, &experiment.UnknownError{Kind: "affinity", Name: affinity, Known: experiment.Affinities()}
}

// generation is all labs, workers and sockets of one generation.
type generation struct {
	number int
	seed   *rand.Rand
	labs   []*lab // by index into Resolved.Labs; nil where no cell of it is measured any more
	board  *traffic.Board
	mem    []byte
	files  map[string]*os.File // passed on to every host
	seats  []int               // by board number of the worker: its threads

	watched []int // CPUs whose soft interrupts count; nil: those of none
}

// configurator builds and removes generations.
type configurator struct {
	resolved   *experiment.Resolved
	cpus       []int // that workers may use
	start      StartHost
	congestion string       // chosen in the first generation
	probe      *probe.Probe // nil: nothing is probed

	// alone is held by a lab whose rules or entries are loaded and changed, and shared by all others: of what is told about them the memory is the whole machine's, and the time is
	// taken on CPUs that others build on.
	alone sync.RWMutex
}

// LocalHost is a host whose network namespace others can be joined to, and on which others than workers can be started.
type LocalHost interface {
	host.Host
	NetNS() (*os.File, error)
	// Namespace opens a network namespace of the host by its name, "" for its own.
	Namespace(name string) (*os.File, error)
	// Run runs a command to its end on the host, in one of its network namespaces, and calls started when it runs. With terminal its
	// standard input is one, which becomes its own.
	Run(cmd *exec.Cmd, namespace string, terminal bool, started func(*os.Process)) error
}

// StartHost starts a host of that name on this machine; its agent and workers inherit the files.
type StartHost func(ctx context.Context, name string, files map[string]*os.File) (LocalHost, error)

// patience is how long all labs of a generation may take to build.
func patience(r *experiment.Resolved) time.Duration {
	limit := buildLimit
	for _, l := range r.Labs {
		limit += time.Duration(2*l.Pairs) * buildEach
		if loads(l) {
			limit += loadAlone
		}
		if l.Filter != nil {
			limit += time.Duration(l.Filtering.Count(filter.Rules)*l.Hosts) * loadEach
		}
	}
	return limit
}

// build makes a generation for the cells that are still measured (by index). Labs that cannot be built are named in failed.
func (c *configurator) build(ctx context.Context, number int, cells []int) (_ *generation, failed map[int]error, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience(c.resolved))
	defer cancel()
	g, err := c.begin(number, cells)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if err := c.layOut(g, cells); err != nil {
		return nil, nil, err
	}
	failed = map[int]error{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(builders)
	for i, l := range g.labs {
		if l == nil {
			continue
		}
		plans, underlay, err := c.plan(l, g.seed.Uint64())
		if err != nil {
			return nil, nil, err
		}
		group.Go(func() error {
			began := time.Now()
			if err := c.raise(ctx, l, plans, underlay); err != nil {
				mu.Lock()
				failed[i] = fmt.Errorf("build lab %s: %w", l.ID, err)
				mu.Unlock()
			}
			l.took = time.Since(began) - l.waited
			return nil
		})
	}
	_ = group.Wait()
	for i := range failed {
		g.labs[i].close()
		g.labs[i] = nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, failed, err
	}
	if err := c.agree(g); err != nil {
		return nil, failed, err
	}
	for i, l := range g.labs {
		if l == nil {
			continue
		}
		if err := c.specify(l, i, cells); err != nil {
			return nil, failed, fmt.Errorf("lab %s: %w", l.ID, err)
		}
		group.Go(func() error {
			if err := l.open(ctx); err != nil {
				mu.Lock()
				failed[i] = fmt.Errorf("open sockets of lab %s: %w", l.ID, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait()
	for i := range failed {
		if g.labs[i] != nil {
			g.labs[i].close()
			g.labs[i] = nil
		}
	}
	return g, failed, context.Cause(ctx)
}

// begin sketches the labs of a generation; nothing is built yet.
func (c *configurator) begin(number int, cells []int) (*generation, error) {
	g := &generation{
		number: number,
		seed:   rand.New(rand.NewPCG(c.resolved.Experiment.Design.Seed, uint64(number))),
		labs:   make([]*lab, len(c.resolved.Labs)),
		files:  map[string]*os.File{},
	}
	for _, i := range cells {
		cell := c.resolved.Cells[i]
		if g.labs[cell.Lab] == nil {
			l, err := c.sketch(g, c.resolved.Labs[cell.Lab])
			if err != nil {
				return nil, err
			}
			g.labs[cell.Lab] = l
		}
		l := g.labs[cell.Lab]
		if !slices.Contains(l.families, cell.Family) {
			l.families = append(l.families, cell.Family)
		}
		if port := cell.Workload.Describe().Port; port != 0 && !slices.Contains(l.ports, port) {
			l.ports = append(l.ports, port)
		}
	}
	return g, nil
}

// LabPlan is what the hosts of a lab are going to be told in the first generation.
type LabPlan struct {
	Lab      string      `json:"lab"`
	Hosts    []host.Plan `json:"hosts"` // host 1 first
	Underlay host.Plan   `json:"underlay"`
}

// Plans returns the plans of all labs, on a machine where workers may use these CPUs. It touches nothing.
func Plans(r *experiment.Resolved, cpus []int) ([]LabPlan, error) {
	c := &configurator{resolved: r, cpus: cpus}
	all := make([]int, len(r.Cells))
	for i := range all {
		all[i] = i
	}
	g, err := c.begin(0, all)
	if err != nil {
		return nil, err
	}
	plans := make([]LabPlan, len(g.labs))
	for i, l := range g.labs {
		plans[i].Lab = l.ID
		if plans[i].Hosts, plans[i].Underlay, err = c.plan(l, g.seed.Uint64()); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// sketch says which workers a lab has and where its pairs are; nothing is built yet.
func (c *configurator) sketch(g *generation, spec experiment.Lab) (*lab, error) {
	on, err := place(spec.Affinity, c.cpus)
	if err != nil {
		return nil, err
	}
	// Workers of all labs share the CPUs: those of a lab whose threads have CPUs of their own must not park theirs beside one whose have not.
	alone := !slices.ContainsFunc(c.resolved.Labs, func(l experiment.Lab) bool { return !l.Alone(len(c.cpus)) })
	l := &lab{Lab: spec, generation: g, at: make([]pairAddresses, spec.Pairs)}
	for pair := range spec.Pairs {
		l.at[pair] = pairAddresses{sourceHost: spec.SourceHost(pair), sinkHost: spec.SinkHost(pair)}
		l.assign(workload.Source, l.at[pair].sourceHost, pair, on.sources, alone)
		l.assign(workload.Sink, l.at[pair].sinkHost, pair, on.sinks, alone)
	}
	return l, nil
}

// layOut makes the board and opens the files that every worker inherits.
func (c *configurator) layOut(g *generation, cells []int) error {
	layout := traffic.Layout{Workers: len(g.seats), Pairs: slices.Max(g.seats), Cells: len(c.resolved.Visits)}
	file, err := shm.Create("nettoll-board", traffic.BoardSize(layout))
	if err != nil {
		return err
	}
	g.files["board"] = file
	if g.mem, err = shm.Map(file); err != nil {
		return err
	}
	if g.board, err = traffic.NewBoard(g.mem, layout); err != nil {
		return err
	}
	for _, i := range cells { // of the members of a mix the last one says what the others have said
		cell := c.resolved.Cells[i]
		plan := traffic.CellPlan{Length: cell.Trial, Warm: cell.Warm}
		for _, w := range g.labs[cell.Lab].workers {
			plan.Workers = append(plan.Workers, w.number)
			plan.Threads += len(w.pairs)
		}
		if err := g.board.SetCell(cell.Visit, plan); err != nil {
			return err
		}
	}
	for _, cpu := range c.cpus {
		f, err := process.KsoftirqdStat(cpu)
		if errors.Is(err, errors.ErrUnsupported) {
			continue // the record then has no run time of it
		}
		if err != nil {
			return err
		}
		g.files[fmt.Sprintf("ksoftirqd:%d", cpu)] = f
	}
	if c.probe == nil {
		return nil
	}
	g.watched = c.cpus
	if g.files["softirq"], err = c.probe.File(); err != nil {
		delete(g.files, "softirq")
	}
	return err
}

// plan asks network and runtime what the lab's hosts must look like. It is pure but for the seed drawn by the caller.
func (c *configurator) plan(l *lab, seed uint64) (plans []host.Plan, underlay host.Plan, err error) {
	spec := network.Lab{MTU: c.resolved.Experiment.Tune.MTU, Seed: seed, Params: l.Params}
	for h := 1; h <= l.Hosts; h++ {
		one := network.Host{Index: h}
		if l.Hosts > 1 {
			one.Uplink = uplink
		}
		spec.Hosts = append(spec.Hosts, one)
	}
	where := func(h int, name string) (int, int) {
		containers := &spec.Hosts[h-1].Containers
		*containers = append(*containers, network.Container{Name: name, Index: len(*containers)})
		return h - 1, len(*containers) - 1
	}
	sources, sinks := make([]filter.Spot, l.Pairs), make([]filter.Spot, l.Pairs)
	for pair, at := range l.at {
		sources[pair].Host, sources[pair].Container = where(at.sourceHost, fmt.Sprintf("%s%d", sourceName, pair))
		sinks[pair].Host, sinks[pair].Container = where(at.sinkHost, fmt.Sprintf("%s%d", sinkName, pair))
		if at.sourceHost == at.sinkHost {
			here := spec.Hosts[at.sourceHost-1].Containers
			source, sink := &here[sources[pair].Container], &here[sinks[pair].Container]
			source.Peer, sink.Peer = sink.Name, source.Name
		}
	}
	if err := shareOut(spec.Hosts, l.generation.seed, c.most(l)); err != nil {
		return nil, host.Plan{}, fmt.Errorf("plan lab %s: %w", l.ID, err)
	}
	plans, endpoints, err := l.Network.Build(spec)
	if err != nil {
		return nil, host.Plan{}, fmt.Errorf("plan lab %s: %w", l.ID, err)
	}
	for pair := range l.at {
		source, sink := sources[pair], sinks[pair]
		l.at[pair].source, l.at[pair].sourcePorts = endpoints[source.Host][source.Container], spec.Hosts[source.Host].Containers[source.Container].Ports
		l.at[pair].sink, l.at[pair].sinkPorts = endpoints[sink.Host][sink.Container], spec.Hosts[sink.Host].Containers[sink.Container].Ports
	}
	if l.Filter != nil {
		pairs := make([]filter.Pair, l.Pairs)
		for pair := range pairs {
			pairs[pair] = filter.Pair{Source: sources[pair], Sink: sinks[pair], Ports: l.ports}
		}
		at, bridge := l.Network.(network.Guarded).Guarded(l.Params) //nolint:forcetypeassert // a stack whose network is none is left out
		for h, site := range filter.Sites(spec, endpoints, pairs, l.families, at, bridge, l.Filtering) {
			steps, err := l.Filter.Build(site)
			if err != nil {
				return nil, host.Plan{}, fmt.Errorf("plan lab %s: %w", l.ID, err)
			}
			plans[h].Steps = append(plans[h].Steps, steps...)
		}
	}
	for h := range plans {
		containers := make([]runtime.Container, len(endpoints[h]))
		for i, e := range endpoints[h] {
			containers[i] = runtime.Container{Name: spec.Hosts[h].Containers[i].Name, Namespace: e.Namespace}
		}
		steps, err := l.Runtime.Containers(containers)
		if err != nil {
			return nil, host.Plan{}, fmt.Errorf("plan lab %s: %w", l.ID, err)
		}
		plans[h].Steps = slices.Concat(steps, plans[h].Steps)
	}
	if l.Hosts > 1 {
		underlay = network.Underlay(l.Network, spec)
	}
	l.plans, l.beneath = plans, underlay
	return plans, underlay, nil
}

// raise starts the lab's hosts, applies their plans, has them verified and starts the workers.
func (c *configurator) raise(ctx context.Context, l *lab, plans []host.Plan, underlay host.Plan) error {
	l.hosts = make([]host.Host, len(plans))
	namespaces := map[string]*os.File{}
	defer func() {
		for _, f := range namespaces {
			_ = f.Close()
		}
	}()
	files := l.generation.files
	if len(borrows(l.Lab)) > 0 {
		machine, err := netns.Current()
		if err != nil {
			return err
		}
		defer machine.Close()
		files = maps.Clone(files)
		files["netns:"+strings.TrimPrefix(host.Machine, "@")] = machine
	}
	for i := range plans {
		name := fmt.Sprintf("host%d", i+1)
		h, err := c.start(ctx, name, files)
		if err != nil {
			return err
		}
		l.hosts[i] = h
		if l.Hosts > 1 {
			if namespaces["netns:"+name], err = h.NetNS(); err != nil {
				return err
			}
		}
	}
	if l.Hosts > 1 {
		u, err := c.start(ctx, "underlay", namespaces)
		if err != nil {
			return err
		}
		l.underlay = u
	}
	waited := time.Now()
	lock, unlock := c.alone.RLock, c.alone.RUnlock
	if loads(l.Lab) {
		lock, unlock = c.alone.Lock, c.alone.Unlock
	}
	lock()
	l.waited = time.Since(waited)
	err := l.apply(ctx, plans, underlay)
	unlock()
	if err != nil {
		return err
	}
	for _, w := range l.workers {
		if err := w.start(ctx); err != nil {
			return err
		}
	}
	l.congestion, err = l.settable(ctx)
	return err
}

// loads says whether a lab tells what rules or entries of it cost.
func loads(l experiment.Lab) bool {
	t, ok := l.Network.(network.Tracker)
	return l.Filter != nil || ok && t.Tracked(l.Params) > 0
}

// apply applies the plans of the lab's hosts, has them verified and measures what they have to tell.
func (l *lab) apply(ctx context.Context, plans []host.Plan, underlay host.Plan) error {
	if l.underlay != nil {
		if err := l.underlay.Apply(ctx, underlay); err != nil {
			return err
		}
	}
	for i, h := range l.hosts {
		if err := h.Apply(ctx, plans[i]); err != nil {
			return err
		}
	}
	if err := l.verify(ctx); err != nil {
		return err
	}
	l.told = make([]host.Told, len(l.hosts))
	for i, h := range l.hosts {
		told, err := h.Measure(ctx)
		if err != nil {
			return err
		}
		l.told[i] = told
	}
	return nil
}

// CongestionControls lists what an experiment's congestion control can be.
func CongestionControls() []string { return append([]string{"auto"}, candidates()...) }

// candidates are the congestion controls of "auto", best first.
func candidates() []string { return []string{"cubic", "reno", "bbr"} }

// agree chooses the congestion control of the whole experiment.
func (c *configurator) agree(g *generation) error {
	wanted := c.resolved.Experiment.Tune.Congestion
	choices := candidates()
	if wanted != "auto" {
		choices = []string{wanted}
	}
	for _, choice := range choices {
		all := true
		for _, l := range g.labs {
			all = all && (l == nil || slices.Contains(l.congestion, choice))
		}
		if !all {
			continue
		}
		if c.congestion != "" && c.congestion != choice {
			return fmt.Errorf("congestion control %q of the first generation cannot be set any more", c.congestion)
		}
		c.congestion = choice
		return nil
	}
	return fmt.Errorf("congestion control %q cannot be set in every lab (known: auto, %s)", wanted, strings.Join(candidates(), ", "))
}

// portsPerVisit is how many ports of a sink a workload has at most where a filter has to know them all: filters that hold each port on its own would be lists of ports. The
// one beyond them is a port that is refused.
const portsPerVisit = 64

// most is how many ports a sink has at most: as many as there are, but where some stack has a filter, and then in all labs alike.
func (c *configurator) most(l *lab) int {
	if !slices.ContainsFunc(c.resolved.Labs, func(o experiment.Lab) bool { return o.Filter != nil }) {
		return lastPort - firstPort
	}
	visits := map[int]bool{}
	for _, cell := range c.resolved.Cells {
		if c.resolved.Labs[cell.Lab].ID == l.ID {
			visits[cell.Visit] = true
		}
	}
	return portsPerVisit*len(visits) + 2 // the first is the proof's
}

// shareOut gives each container of a lab ports of its own, the same number to each but at most so many to a sink, and in an order from the seed.
func shareOut(hosts []network.Host, seed *rand.Rand, most int) error {
	for _, h := range hosts {
		n := len(h.Containers)
		if n == 0 {
			continue
		}
		each := (lastPort - firstPort) / n
		if each < 2 {
			return fmt.Errorf("%d containers on a host, and there are %d ports for them", n, lastPort-firstPort)
		}
		for i, at := range seed.Perm(n) {
			first := firstPort + at*each
			ports := each
			if strings.HasPrefix(h.Containers[i].Name, sinkName) {
				ports = min(each, most)
			}
			h.Containers[i].Ports = network.Ports{First: uint16(first), Last: uint16(first + ports - 1)}
		}
	}
	return nil
}

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
	for pair, at := range l.at {
		sourcePorts, sources, err := draw(at.sourcePorts, len(visits), l.generation.seed)
		if err != nil {
			return err
		}
		open := at.sinkPorts
		if l.Filter != nil {
			open.Last-- // is refused
		}
		sinkPorts, sinks, err := draw(open, len(visits), l.generation.seed)
		if err != nil {
			return err
		}
		for k, visit := range visits {
			i := c.at(pair, here[visit])
			cell := c.resolved.Cells[i]
			spec := workload.Spec{
				Workload: cell.Cell.Workload, Params: cell.Params, Pair: pair, Congestion: c.congestion, Plant: cell.Plant,
				LocalPorts: sources, RemotePorts: sinks, Seed: c.seed(l.generation.number, pair),
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

// at returns which of the cells of a visit has a pair.
func (c *configurator) at(pair int, cells []int) int {
	i := slices.IndexFunc(cells, func(i int) bool { return pair < c.resolved.Cells[i].First+c.resolved.Cells[i].Pairs })
	return cells[i]
}

// seed is what the schedules of a pair begin with, in all stacks of a generation alike.
func (c *configurator) seed(generation, pair int) uint64 {
	return rand.New(rand.NewPCG(c.resolved.Experiment.Design.Seed, uint64(generation)<<32|uint64(pair))).Uint64()
}

// draw shares a container's ports, other than the first, out to n visits in random order. It returns the first port of each and how many follow
// each other from there on.
func draw(p network.Ports, n int, seed *rand.Rand) (first []uint16, each int, err error) {
	rest := int(p.Last - p.First)
	if n > rest {
		return nil, 0, fmt.Errorf("%d visits to one lab, and each container has %d ports for them: measure fewer workloads at once, or fewer pairs", n, rest)
	}
	first = make([]uint16, n)
	each = rest / n
	for i, at := range seed.Perm(n) {
		first[i] = p.First + 1 + uint16(at*each)
	}
	return first, each, nil
}

// close ends the generation.
func (g *generation) close() {
	var group sync.WaitGroup
	for _, l := range g.labs {
		if l != nil {
			group.Go(l.close)
		}
	}
	group.Wait()
	if g.mem != nil {
		_ = shm.Unmap(g.mem)
	}
	for _, f := range g.files {
		_ = f.Close()
	}
}
