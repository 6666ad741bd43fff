package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
)

// trial is what came of one visit to one cell, alone or as a member of a mix.
type trial struct {
	cell    int
	timing  traffic.Timing
	result  workload.Result
	failure string
	samples workload.Trial

	durations [traffic.Quantities]*hdrhistogram.Histogram // nil where it failed
}

const (
	// collectLimit is how long workers have for the samples of a block: it takes milliseconds, with hundreds of pairs too.
	collectLimit = 5 * time.Second
	// interruptLimit is how long an interrupted run waits for those of its last block.
	interruptLimit = 200 * time.Millisecond
)

// workloadControl makes blocks happen.
type workloadControl struct {
	probe  probe.Probe // nil: nothing is probed
	cells  []experiment.Cell
	visits []experiment.Visit
}

// lab returns the lab of a visit.
func (c *workloadControl) lab(g *generation, visit int) *lab {
	return g.labs[c.cells[c.visits[visit].Cells[0]].Lab]
}

// fault is what went wrong with workers during a block.
type fault struct {
	workers []*labWorker
	visit   int // whose trial it ended; -1 if none
	reason  string
}

func (f *fault) Error() string { return f.reason }

// run makes one block of visits happen and returns the trials that ended. A *fault names workers that died or hang;
// ctx.Err() says that the block was interrupted.
func (c *workloadControl) run(ctx context.Context, g *generation, order []int) ([]trial, error) {
	blockCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, w := range g.workers() {
		stop := watch(w, cancel)
		defer stop()
	}
	timings, err := g.turns.Run(blockCtx, order, func(worker int) int { return g.seats[worker] })
	var stalled *traffic.StalledError
	var lost *traffic.LostError
	var died *fault
	switch {
	case errors.As(err, &stalled):
		err = c.name(g, stalled)
	case errors.As(context.Cause(blockCtx), &died):
		died.visit = c.ended(g, timings, died.workers[0].lab)
		err = died
	case errors.As(err, &lost):
		for _, w := range g.workers() {
			if w.number == lost.Worker {
				err = &fault{
					workers: []*labWorker{w}, visit: c.ended(g, timings, w.lab),
					reason: fmt.Sprintf("worker %s does not take its turn: %v", w.name(), lost.Err),
				}
			}
		}
	}
	limit := collectLimit
	if ctx.Err() != nil { // a worker whose trial was left alone answers when that has ended
		limit = interruptLimit
	}
	collectCtx, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), limit,
		fmt.Errorf("it did not return its samples within %v", limit))
	defer stop()
	var known *fault
	_ = errors.As(err, &known)
	trials, collectErr := c.collect(collectCtx, g, timings, known)
	if err == nil {
		err = collectErr
	}
	return trials, err
}

// ended returns the visit whose trial ended the block, if a lab had a part in it; otherwise -1.
func (c *workloadControl) ended(g *generation, timings []traffic.Timing, l *lab) int {
	for _, t := range timings {
		if t.Done || t.Refused != "" {
			continue
		}
		if c.lab(g, t.Cell) == l {
			return t.Cell
		}
		break
	}
	return -1
}

// watch cancels the block when a worker dies, of whose process there may be another when the block has ended.
func watch(w *labWorker, cancel context.CancelCauseFunc) (stop func()) {
	quit, process := make(chan struct{}), w.Worker
	go func() {
		select {
		case <-process.Done():
			reason := "it ended unexpectedly"
			if err := process.Err(); err != nil {
				reason = err.Error()
			}
			cancel(&fault{workers: []*labWorker{w}, reason: fmt.Sprintf("worker %s died: %s", w.name(), reason)})
		case <-quit:
		}
	}()
	return func() { close(quit) }
}

// workers returns all workers of the generation.
func (g *generation) workers() []*labWorker {
	var all []*labWorker
	for _, l := range g.labs {
		if l != nil {
			all = append(all, l.workers...)
		}
	}
	return all
}

// name turns seats into workers.
func (c *workloadControl) name(g *generation, s *traffic.StalledError) *fault {
	f := &fault{visit: s.Cell}
	seen := map[int]bool{}
	for _, seat := range s.Missing {
		if seen[seat.Worker] {
			continue
		}
		for _, w := range g.workers() {
			if w.number == seat.Worker && (seat.Pair >= len(w.pairs) || c.awaits(s.Cell, w.pairs[seat.Pair])) {
				f.workers, seen[seat.Worker] = append(f.workers, w), true
			}
		}
	}
	what := "did not start its trial"
	if s.Opened {
		what = "did not finish its trial"
	}
	for i, w := range f.workers {
		if i > 0 {
			f.reason += "; "
		}
		f.reason += fmt.Sprintf("worker %s %s of %s", w.name(), what, c.visits[s.Cell].ID) + w.stopped()
	}
	if f.reason == "" {
		f.reason = fmt.Sprintf("the trial of %s did not end, although all of its workers finished", c.visits[s.Cell].ID)
	}
	return f
}

// awaits says whether a pair of a lab takes part in a visit.
func (c *workloadControl) awaits(visit, pair int) bool {
	return slices.ContainsFunc(c.visits[visit].Cells, func(i int) bool { return c.cells[i].Has(pair) })
}

// collect fetches the samples of the trials that ended, and has the workload make metrics of them. Workers that do not
// give them are a *fault; those of a fault that is known are not asked.
func (c *workloadControl) collect(ctx context.Context, g *generation, timings []traffic.Timing, known *fault) ([]trial,
	error,
) {
	asked := map[*lab][]int{}
	for _, t := range timings {
		if t.Done {
			l := c.lab(g, t.Cell)
			asked[l] = append(asked[l], t.Cell)
		}
	}
	type answer struct {
		worker  *labWorker
		samples []worker.CellSamples
	}
	answers := make(chan answer, len(g.workers()))
	var group sync.WaitGroup
	var mu sync.Mutex
	silent := &fault{visit: -1}
	for l, visits := range asked {
		for _, w := range l.workers {
			if known != nil && slices.Contains(known.workers, w) {
				continue
			}
			group.Go(func() {
				var samples []worker.CellSamples
				err := w.call(ctx, worker.Collect, worker.CollectParams{Visits: visits}, &samples)
				if err == nil {
					answers <- answer{w, samples}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if cause := context.Cause(ctx); cause != nil {
					err = fmt.Errorf("worker %s: %w%s", w.name(), cause, w.stopped())
				}
				silent.workers = append(silent.workers, w)
				silent.reason = strings.TrimPrefix(silent.reason+"; "+err.Error(), "; ")
			})
		}
	}
	group.Wait() // the cells of a worker that did not answer are incomplete and left out below
	close(answers)
	var err error
	if len(silent.workers) > 0 {
		err = silent
	}

	gathered := map[int]*workload.Trial{}
	got := map[int]int{} // samples, by cell
	for a := range answers {
		for _, s := range a.samples {
			cell := c.cells[s.Cell]
			t := gathered[s.Cell]
			if t == nil {
				t = &workload.Trial{
					Params: cell.Params, Length: cell.Trial, Window: cell.Trial - cell.Warm, First: cell.First,
					Sources: make([]traffic.Sample, cell.Pairs), Sinks: make([]traffic.Sample, cell.Pairs),
				}
				gathered[s.Cell] = t
			}
			for i, sample := range s.Samples {
				got[s.Cell]++
				if s.Side[i] == workload.Source {
					t.Sources[s.Pairs[i]-cell.First] = sample
				} else {
					t.Sinks[s.Pairs[i]-cell.First] = sample
				}
			}
			if err := t.AddHistograms(s.Histograms); err != nil {
				return nil, fmt.Errorf("durations from worker %s: %w", a.worker.name(), err)
			}
		}
	}
	var trials []trial
	for _, timing := range timings {
		visit := c.visits[timing.Cell].Cells
		if timing.Refused != "" {
			for _, i := range visit {
				one := trial{cell: i, timing: timing, failure: timing.Refused}
				one.result.Window = c.cells[i].Trial - c.cells[i].Warm
				trials = append(trials, one)
			}
		}
		if !timing.Done {
			continue
		}
		first := len(trials)
		for _, i := range visit {
			if t := gathered[i]; t != nil && got[i] == 2*c.cells[i].Pairs {
				trials = append(trials, c.trial(i, *t, timing, c.lab(g, timing.Cell).metering))
			}
		}
		if len(visit) > 1 {
			c.tellBeside(trials[first:])
		}
	}
	return trials, err
}

// trial has the workload of a cell make metrics of its samples. The machines are those of its lab, if they are read.
func (c *workloadControl) trial(i int, t workload.Trial, timing traffic.Timing, on []deploy.Metering) trial {
	cell, kernels := c.cells[i], traffic.Kernels(meteredOn(timing, on))
	// in a mix it is the run time for all members together, and nobody could say for which
	if cell.Mix == nil && cell.Alone == "" {
		t.Softirqd = timing.Softirqd
		for _, k := range kernels {
			t.Softirqd += time.Duration(max(0, k.Softirqd))
		}
	}
	t = t.Settled()
	one := trial{cell: i, timing: timing, failure: t.Failure(), samples: t}
	if one.failure == "" {
		one.result, one.durations = cell.Workload.Metrics(t), t.Histograms
		probed(&one.result, c.probe, cell, t, timing.Probe)
		if cell.Mix == nil && cell.Alone == "" {
			putMetered(one.result.Metrics, kernels)
		}
		if cell.Mix != nil || cell.Alone != "" {
			delete(one.result.Metrics, "cpu_softirqd")
		}
	}
	if one.result.Window == 0 {
		one.result.Window = t.Window
	}
	return one
}

// tellBeside lets the trials of a mix know which of the others failed: what a member measured then was not measured
// beside it.
func (c *workloadControl) tellBeside(members []trial) {
	for _, failed := range members {
		if failed.failure == "" {
			continue
		}
		for i := range members {
			if m := &members[i]; m.cell != failed.cell && m.failure == "" {
				m.result.Warnings = append(m.result.Warnings,
					fmt.Sprintf("the other end, the %s, failed: %s: look for the cause there",
						c.cells[failed.cell].Workload.Describe().Name, failed.failure))
			}
		}
	}
}

// record makes the line for records.jsonl.
func (t trial) record(cell experiment.Cell, generation, block int, started int64) measure.Trial {
	r := measure.Trial{
		Generation: generation, Block: block, Cell: cell.ID,
		Start:    float64(t.timing.Opened-started) / 1e9,
		Duration: t.result.Window.Seconds(),
		Metrics:  t.result.Metrics, PerPair: t.result.PerPair, Warnings: t.result.Warnings, Limit: string(t.result.Limit),
		Failed: t.failure,
	}
	if r.Metrics == nil {
		r.Metrics = map[string]float64{}
	}
	r.Metrics["dead_time"] = t.timing.Dead.Seconds()
	r.Metrics["drain_time"] = t.timing.Drain.Seconds()
	for name, took := range map[string]time.Duration{
		"late_time": t.timing.Late, "clock_skew": t.timing.Skew, "clock_offset": t.timing.Apart,
	} {
		if took > 0 { // not on this machine, which has one gate and one clock
			r.Metrics[name] = took.Seconds()
		}
	}
	if share, ok := t.samples.Waited(); ok {
		r.Metrics[measure.WaitMetric] = share
	}
	for q, h := range t.durations {
		// the histograms have both; and 100,000 trials are to fit into 50 MB
		if q := traffic.Quantity(q); q != traffic.Latency && q != traffic.OneWay && h != nil {
			for _, name := range []string{q.Name() + "_mean", q.Name() + "_p50"} {
				if name != cell.Primary {
					delete(r.Metrics, name)
				}
			}
		}
	}
	return r
}
