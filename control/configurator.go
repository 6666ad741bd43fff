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
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/board"
	"github.com/nettoll/nettoll/worker"
)

const (
	buildLimit = 30 * time.Second      // for all labs of a generation, and more for each container: see patience
	buildEach  = 40 * time.Millisecond // for a container, which takes 2 to 4 where nothing else is busy
	// loadFactor is for what the parts of a stack take beyond that, loaded, changed and verified: so many times the guess.
	// A hundred thousand rules take half a minute if the kernel walks them all.
	loadFactor = 25
	loadAlone  = 2 * time.Second  // for a lab that has the machine for itself meanwhile
	callLimit  = 10 * time.Second // for one call to a worker or an agent
	// builders is how many labs are built at the same time: two threads help, more do not (creating links is serialised in
	// the kernel).
	builders = 4
)

// generation is all labs, workers and sockets of one generation.
type generation struct {
	number int
	seed   *rand.Rand
	labs   []*lab              // by index into Resolved.Labs; nil where no cell of it is measured any more
	turns  traffic.Turns       // of all its workers
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
	probe      probe.Loaded // nil: nothing is probed
	journals   journal.Place

	journalMu sync.Mutex
	journal   *journal.Journal // of this run; nil while no lab takes anything that outlives it

	// alone is held by a lab whose rules or entries are loaded and changed, and shared by all others: of what is told
	// about them the memory is the whole machine's, and the time is taken on CPUs that others build on.
	alone sync.RWMutex
}

// LocalHost is a host whose network namespace others can be joined to, and on which others than workers can be started.
type LocalHost interface {
	host.Host
	NetNS() (*os.File, error)
	// Namespace opens a network namespace of the host by its name, "" for its own.
	Namespace(name string) (*os.File, error)
	// Run runs a command to its end on the host, in one of its network namespaces, and calls started when it runs. With
	// terminal its standard input is one, which becomes its own.
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
		limit += loadFactor * l.Stack.BuildTime(l.Hosts)
	}
	return limit
}

// build makes a generation for the cells that are still measured (by index). Labs that cannot be built are named in
// failed.
func (c *configurator) build(ctx context.Context, number int, cells []int) (_ *generation, failed map[int]error,
	err error,
) {
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

// layOut makes the turn and opens the files that every worker inherits.
func (c *configurator) layOut(g *generation, cells []int) error {
	layout := traffic.Layout{Workers: len(g.seats), Pairs: slices.Max(g.seats), Cells: len(c.resolved.Visits)}
	turns, err := board.New(layout)
	if err != nil {
		return err
	}
	g.turns = turns
	maps.Copy(g.files, turns.Files())
	for _, i := range cells { // of the members of a mix the last one says what the others have said
		cell := c.resolved.Cells[i]
		plan := traffic.CellPlan{Length: cell.Trial, Warm: cell.Warm}
		for _, w := range g.labs[cell.Lab].workers {
			plan.Workers = append(plan.Workers, w.number)
			plan.Threads += len(w.pairs)
		}
		if err := g.turns.SetCell(cell.Visit, plan); err != nil {
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
	f, err := c.probe.File()
	if err != nil {
		return err
	}
	g.files[worker.ProbeFile+c.resolved.Probe.Describe().Name] = f
	return nil
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
		if l.journal, err = c.begun(ctx); err != nil {
			return err
		}
		files = maps.Clone(files)
		files["netns:"+strings.TrimPrefix(host.Machine, "@")] = machine
		files[journal.FilePrefix+l.mark()] = l.journal.File()
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
	err := l.apply(ctx, plans, underlay, loads(l.Lab))
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
	t, params, ok := stack.PartOf[network.Tracker](l.Stack)
	return filtered(l) || ok && t.Tracked(params) > 0
}

// begun returns the journal of the run, which it begins for the first lab that wants one.
func (c *configurator) begun(ctx context.Context) (*journal.Journal, error) {
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	if c.journal != nil {
		return c.journal, nil
	}
	var err error
	c.journal, err = c.journals.Begin(ctx)
	return c.journal, err
}

// close ends the journal of the run, when its labs are removed. The error says what of the machine was not given
// back.
func (c *configurator) close() error {
	c.journalMu.Lock()
	defer c.journalMu.Unlock()
	if c.journal == nil {
		return nil
	}
	err := c.journal.Close()
	c.journal = nil
	return err
}

// mark tells the lab from others in the journal of the run.
func (l *lab) mark() string { return fmt.Sprintf("%d/%s", l.generation.number, l.ID) }

// apply applies the plans of the lab's hosts, has them verified and measures what they have to tell. Where one by
// one is set, no two hosts are at it at the same time: what loading takes is told by each of them, and of memory it
// is that of the whole machine.
func (l *lab) apply(ctx context.Context, plans []host.Plan, underlay host.Plan, oneByOne bool) error {
	all := l.all()
	if l.underlay != nil {
		plans = append(slices.Clip(plans), underlay)
	}
	names := make([]string, len(all))
	for i, h := range all {
		names[i] = h.Name()
	}
	waves, err := host.Waves(names, plans)
	if err != nil {
		return err
	}
	for _, wave := range waves {
		apply := func(ctx context.Context, i int) error { return all[i].Apply(ctx, plans[i]) }
		if err := each(ctx, wave, oneByOne, apply); err != nil {
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

// each calls f with each of a list, at the same time or one by one, and returns the first error.
func each(ctx context.Context, list []int, oneByOne bool, f func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	if oneByOne {
		group.SetLimit(1)
	}
	for _, i := range list {
		group.Go(func() error {
			if err := ctx.Err(); err != nil { // another one has failed
				return err
			}
			return f(ctx, i)
		})
	}
	return group.Wait()
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
	return fmt.Errorf("congestion control %q cannot be set in every lab (known: auto, %s)", wanted,
		strings.Join(candidates(), ", "))
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
	if g.turns != nil {
		_ = g.turns.Close() // nothing waits any more, and the memory goes with the process
	}
	for _, f := range g.files {
		_ = f.Close() // those of the turn are closed already
	}
}
