package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"github.com/nettoll/nettoll/traffic"
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
)

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
	began := time.Now()
	lock, unlock := c.alone.RLock, c.alone.RUnlock
	if loads(l.Lab) {
		lock, unlock = c.alone.Lock, c.alone.Unlock
	}
	lock()
	l.waited = time.Since(began)
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
	began := time.Now()
	defer func() { l.waited += time.Since(began) }()
	l.told = make([]host.Told, len(l.hosts))
	for i, h := range l.hosts {
		told, err := h.Measure(ctx)
		if err != nil {
			return err
		}
		l.told[i] = told
	}
	return l.change(ctx)
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
