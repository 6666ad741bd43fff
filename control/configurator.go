package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	buildLimit = 30 * time.Second      // for a lab, and more for each container: see patience
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

// firstGeneration is the number of the first generation, in records as in what people read.
const firstGeneration = 1

// generation is all labs, workers and sockets of one generation.
type generation struct {
	number int // from firstGeneration
	seed   *rand.Rand
	labs   []*lab // by index into Resolved.Labs; nil where no cell of it is measured any more
	stage  deploy.Generation
	turns  traffic.Turns // of all its workers
	seats  []int         // by number of the worker in the turn: its threads

	watched []int // CPUs whose softirqs count; nil: those of none
}

// configurator builds and removes generations.
type configurator struct {
	resolved   *experiment.Resolved
	deployment deploy.Deployment
	cpus       []int              // that workers may use
	congestion string             // chosen in the first generation
	probe      deploy.LoadedProbe // nil: nothing is probed
	keeps      bool               // frames between hosts of proofs
}

// patience is how long a lab may take to build while all others of its generation are built at the same time.
func patience(r *experiment.Resolved) time.Duration {
	limit := buildLimit
	for _, l := range r.Labs {
		limit += time.Duration(2*l.Pairs) * buildEach
		if deploy.Loads(l.Stack) {
			limit += loadAlone
		}
		limit += loadFactor * l.Stack.BuildTime(l.Hosts, 2*l.Pairs)
	}
	return limit
}

// patiences is so many times as long as all labs of a generation may take, if many of them take as long as each may.
const patiences = 5

// withLimit returns a context that ends after a time, if what it is for was not done by then.
func withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &timeLimitError{limit})
}

// A timeLimitError says that a lab was not built in time.
type timeLimitError struct{ limit time.Duration }

func (e *timeLimitError) Error() string {
	return fmt.Sprintf("it was not built within %v", e.limit.Round(time.Second))
}

// inTime adds to the error of a lab that its time was up, unless the error says so.
func inTime(ctx context.Context, err error) error {
	over, ok := errors.AsType[*timeLimitError](context.Cause(ctx))
	if err == nil || !ok || errors.Is(err, over) {
		return err
	}
	return fmt.Errorf("%w: %w", over, err)
}

// eachInTime calls f for the labs of a generation, each with a time limit of its own. So labs that wait for something
// that does not come take no time from those that are built after them, unless these are many.
func (c *configurator) eachInTime(ctx context.Context, g *generation, what string, failed map[int]error,
	f func(context.Context, *lab) error,
) {
	limit := patience(c.resolved)
	ctx, cancel := withLimit(ctx, patiences*limit)
	defer cancel()
	g.each(what, failed, func(l *lab) error {
		ctx, cancel := withLimit(ctx, limit)
		defer cancel()
		return inTime(ctx, f(ctx, l))
	})
}

// build makes a generation for the cells that are still measured (by index), with sockets open. Labs that cannot be
// built, or not in time, are named in failed. Only the end of ctx is an error because of time.
func (c *configurator) build(ctx context.Context, number int, cells []int) (_ *generation, failed map[int]error,
	err error,
) {
	g, failed, err := c.raise(ctx, number, cells)
	if err != nil {
		return nil, failed, err
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if err := c.agree(g); err != nil {
		return nil, failed, err
	}
	g.each("set up", failed, (*lab).congested)
	for i, l := range g.labs {
		if l == nil {
			continue
		}
		if err := c.specify(l, i, cells); err != nil {
			return nil, failed, fmt.Errorf("lab %s: %w", l.ID, err)
		}
	}
	c.eachInTime(ctx, g, "open sockets of", failed, func(ctx context.Context, l *lab) error { return l.open(ctx) })
	return g, failed, context.Cause(ctx)
}

// raise has the labs of a generation stand, with their workers. Those that do not are named in failed, and not in the
// generation.
func (c *configurator) raise(ctx context.Context, number int, cells []int) (_ *generation, failed map[int]error,
	err error,
) {
	g, err := c.begin(number, cells)
	if err != nil {
		return nil, nil, err
	}
	if err := c.describeLabs(g); err != nil {
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
	c.eachInTime(ctx, g, "build", failed, func(ctx context.Context, l *lab) error {
		if err := c.confined(l); err != nil { // where nobody has asked before
			return err
		}
		if err := g.raise(ctx, l); err != nil {
			return err
		}
		return c.settled(ctx, l)
	})
	return g, failed, context.Cause(ctx)
}

// each calls f for the labs of a generation, some at the same time. Those for which it fails are closed, and named in
// failed.
func (g *generation) each(what string, failed map[int]error, f func(*lab) error) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(builders)
	for i, l := range g.labs {
		if l == nil {
			continue
		}
		group.Go(func() error {
			if err := f(l); err != nil {
				l.close()
				mu.Lock()
				defer mu.Unlock()
				failed[i] = fmt.Errorf("%s lab %s: %w", what, l.ID, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	for i := range failed {
		g.labs[i] = nil
	}
}

// begin sketches the labs of a generation; nothing is built yet.
func (c *configurator) begin(number int, cells []int) (*generation, error) {
	g := &generation{
		number: number,
		seed:   rand.New(rand.NewPCG(c.resolved.Experiment.Design.Seed, uint64(number))),
		labs:   make([]*lab, len(c.resolved.Labs)),
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
		about := cell.Workload.Describe()
		if _, counts := cell.Workload.(workload.Carrier); !counts && !slices.Contains(l.uncounted, about.Name) {
			l.uncounted = append(l.uncounted, about.Name)
		}
		l.large = l.large || sendsLarge(cell)
		if port := about.Port; port != 0 && !slices.Contains(l.ports, port) {
			l.ports = append(l.ports, port)
		}
	}
	return g, nil
}

// layOut makes the turn.
func (c *configurator) layOut(g *generation, cells []int) (err error) {
	if c.probe != nil {
		g.watched = c.cpus
	}
	if g.stage, err = c.deployment.Begin(traffic.Layout{
		Workers: len(g.seats), Pairs: slices.Max(g.seats), Cells: len(c.resolved.Visits),
	}); err != nil {
		return err
	}
	g.turns = g.stage.Turns()
	for _, i := range cells { // of the members of a mix the last one says what the others have said
		cell := c.resolved.Cells[i]
		plan := traffic.CellPlan{Length: cell.Trial, Warm: cell.Warm}
		for _, w := range g.labs[cell.Lab].workers {
			threads := c.takingPart(w, c.resolved.Visits[cell.Visit])
			if threads == 0 {
				continue
			}
			plan.Workers = append(plan.Workers, w.number)
			plan.Threads = append(plan.Threads, threads)
		}
		if err := g.turns.SetCell(cell.Visit, plan); err != nil {
			return err
		}
	}
	return nil
}

// takingPart counts the threads of a worker that take part in a visit: those of a member of a mix that is measured
// alone are not all.
func (c *configurator) takingPart(w *labWorker, v experiment.Visit) int {
	n := 0
	for _, pair := range w.pairs {
		if _, ok := c.at(pair, v.Cells); ok {
			n++
		}
	}
	return n
}

// raise has a lab built and starts its workers.
func (g *generation) raise(ctx context.Context, l *lab) error {
	began := time.Now()
	stands, err := g.stage.Build(ctx, l.spec)
	if err != nil {
		return err
	}
	l.stands = stands
	l.placed(stands.Site())
	l.metered(stands)
	for _, w := range l.workers {
		if err := w.start(ctx); err != nil {
			return err
		}
	}
	l.congestion, err = l.settable(ctx)
	l.took = time.Since(began) - stands.Waited()
	return err
}

const (
	// settleLimit is how long what stands without nettoll may take to do what a lab asks of it. What is the matter after
	// that is for the proof to say.
	settleLimit = 20 * time.Second
	// settleLook is the pause between two tries.
	settleLook = 100 * time.Millisecond
)

// settled waits until the claims of a lab hold, if its hosts stand without nettoll: then others join its containers and
// enforce its list, some time after they were asked to.
func (c *configurator) settled(ctx context.Context, l *lab) error {
	if _, standing := c.deployment.(deploy.Standing); !standing {
		return nil
	}
	for began := time.Now(); ; {
		list, fault := l.prove(ctx, l.mtu)
		took := time.Since(began)
		switch {
		case fault != nil:
			return errors.New(fault.reason)
		case held(list):
			if f, _ := filter.Of(l.Stack); f != nil {
				l.enforcedIn = took
			}
			return nil
		case took > settleLimit:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settleLook):
		}
	}
}

// CongestionControls lists the valid values of an experiment's congestion control.
func CongestionControls() []string { return append([]string{"auto"}, candidates()...) }

// candidates are the congestion controls of "auto", best first.
func candidates() []string { return []string{"cubic", "reno", "bbr"} }

// congested says whether the congestion control of the lab's stack can be set in it.
func (l *lab) congested() error {
	if l.Congestion == "" || slices.Contains(l.congestion, l.Congestion) {
		return nil
	}
	return fmt.Errorf("congestion control %q cannot be set there (can be set: %s)", l.Congestion,
		strings.Join(l.congestion, ", "))
}

// agree chooses the congestion control of the labs whose stacks have none of their own: in the first generation for the
// whole run, because a later one may lack the lab that allows the fewest.
func (c *configurator) agree(g *generation) error {
	wanted := c.resolved.Experiment.Tune.Congestion
	choices := candidates()
	switch {
	case c.congestion != "":
		choices = []string{c.congestion}
	case wanted != "auto":
		choices = []string{wanted}
	}
	for _, choice := range choices {
		all := true
		for _, l := range g.labs {
			all = all && (l == nil || l.Congestion != "" || slices.Contains(l.congestion, choice))
		}
		if all {
			c.congestion = choice
			return nil
		}
	}
	if c.congestion != "" {
		return fmt.Errorf("congestion control %q, used in the first generation, can no longer be set", c.congestion)
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
	if g.stage != nil {
		_ = g.stage.Close() // its labs are closed, and the rest goes with the process
	}
}
