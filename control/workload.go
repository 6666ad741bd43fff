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

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/worker"
	"github.com/nettoll/nettoll/workload"
)

// trial is what came of one visit to one cell.
type trial struct {
	cell    int
	timing  traffic.Timing
	result  workload.Result
	failure string

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
	cells []experiment.Cell
}

// fault is what went wrong with workers during a block.
type fault struct {
	workers []*labWorker
	cell    int // whose trial it ended; -1 if none
	reason  string
}

func (f *fault) Error() string { return f.reason }

// run makes one block happen and returns the trials that ended. A *fault names workers that died or hang; ctx.Err() says that the block was
// interrupted.
func (c *workloadControl) run(ctx context.Context, g *generation, order []int) ([]trial, error) {
	blockCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, w := range g.workers() {
		stop := watch(w, cancel)
		defer stop()
	}
	timings, err := g.board.Run(blockCtx, order, func(worker int) int { return g.seats[worker] })
	var stalled *traffic.StalledError
	var died *fault
	switch {
	case errors.As(err, &stalled):
		err = c.name(g, stalled)
	case errors.As(context.Cause(blockCtx), &died):
		// The cell whose trial it was, if the dead worker had a part in it.
		died.cell = -1
		for _, t := range timings {
			if !t.Done {
				if g.labs[c.cells[t.Cell].Lab] == died.workers[0].lab {
					died.cell = t.Cell
				}
				break
			}
		}
		err = died
	}
	limit := collectLimit
	if ctx.Err() != nil { // a worker whose trial was left alone answers when that has ended
		limit = interruptLimit
	}
	collectCtx, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("it did not give its samples within %v", limit))
	defer stop()
	var known *fault
	_ = errors.As(err, &known)
	trials, collectErr := c.collect(collectCtx, g, timings, known)
	if err == nil {
		err = collectErr
	}
	return trials, err
}

// watch cancels the block when a worker dies.
func watch(w *labWorker, cancel context.CancelCauseFunc) (stop func()) {
	quit := make(chan struct{})
	go func() {
		select {
		case <-w.Done():
			reason := "it ended by itself"
			if err := w.Err(); err != nil {
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
	f := &fault{cell: s.Cell}
	seen := map[int]bool{}
	for _, seat := range s.Missing {
		if seen[seat.Worker] {
			continue
		}
		seen[seat.Worker] = true
		for _, w := range g.workers() {
			if w.number == seat.Worker {
				f.workers = append(f.workers, w)
			}
		}
	}
	what := "did not come to its trial"
	if s.Opened {
		what = "did not come back from its trial"
	}
	for i, w := range f.workers {
		if i > 0 {
			f.reason += "; "
		}
		f.reason += fmt.Sprintf("worker %s %s of %s", w.name(), what, c.cells[s.Cell].ID)
	}
	if f.reason == "" {
		f.reason = fmt.Sprintf("the trial of %s did not end, though all of its workers came back", c.cells[s.Cell].ID)
	}
	return f
}

// collect fetches the samples of the trials that ended, and has the workload make metrics of them. Workers that do not give them are
// a *fault; those of a fault that is known are not asked.
func (c *workloadControl) collect(ctx context.Context, g *generation, timings []traffic.Timing, known *fault) ([]trial, error) {
	asked := map[*lab][]int{}
	for _, t := range timings {
		if t.Done {
			l := g.labs[c.cells[t.Cell].Lab]
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
	silent := &fault{cell: -1}
	for l, cells := range asked {
		for _, w := range l.workers {
			if known != nil && slices.Contains(known.workers, w) {
				continue
			}
			group.Go(func() {
				var samples []worker.CellSamples
				err := w.call(ctx, worker.Collect, worker.CollectParams{Cells: cells}, &samples)
				if err == nil {
					answers <- answer{w, samples}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if cause := context.Cause(ctx); cause != nil {
					err = fmt.Errorf("worker %s: %w", w.name(), cause)
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
					Params: cell.Params, Length: cell.Trial,
					Window:  cell.Trial - time.Duration(cell.Workload.Describe().Warm*float64(cell.Trial)),
					Sources: make([]traffic.Sample, cell.Pairs), Sinks: make([]traffic.Sample, cell.Pairs),
				}
				gathered[s.Cell] = t
			}
			for i, sample := range s.Samples {
				got[s.Cell]++
				if s.Side[i] == workload.Source {
					t.Sources[s.Pairs[i]] = sample
				} else {
					t.Sinks[s.Pairs[i]] = sample
				}
			}
			if err := t.AddHistograms(s.Histograms); err != nil {
				return nil, fmt.Errorf("durations from worker %s: %w", a.worker.name(), err)
			}
		}
	}
	var trials []trial
	for _, timing := range timings {
		t := gathered[timing.Cell]
		if !timing.Done || t == nil || got[timing.Cell] != 2*c.cells[timing.Cell].Pairs {
			continue
		}
		t.Softirqd = timing.Softirqd
		*t = t.Settled()
		one := trial{cell: timing.Cell, timing: timing, failure: t.Failure()}
		if one.failure == "" {
			one.result, one.durations = c.cells[timing.Cell].Workload.Metrics(*t), t.Histograms
			probed(&one.result, c.cells[timing.Cell], *t, timing.Softirq)
		}
		if one.result.Window == 0 {
			one.result.Window = t.Window
		}
		trials = append(trials, one)
	}
	return trials, err
}

// record makes the line for records.jsonl.
func (t trial) record(cell experiment.Cell, generation, block int, started int64) measure.Trial {
	r := measure.Trial{
		Generation: generation, Block: block, Cell: cell.ID,
		Start:    float64(t.timing.Opened-started) / 1e9,
		Duration: t.result.Window.Seconds(),
		Metrics:  t.result.Metrics, PerPair: t.result.PerPair, Warnings: t.result.Warnings, Limit: string(t.result.Limit), Failed: t.failure,
	}
	if r.Metrics == nil {
		r.Metrics = map[string]float64{}
	}
	r.Metrics["dead_time"] = t.timing.Dead.Seconds()
	r.Metrics["drain_time"] = t.timing.Drain.Seconds()
	primary := cell.Workload.Describe().Primary(cell.Params)
	for q, h := range t.durations {
		if q := traffic.Quantity(q); q != traffic.Latency && h != nil { // the histograms have both; and 100,000 trials are to fit into 50 MB
			for _, name := range []string{q.Name() + "_mean", q.Name() + "_p50"} {
				if name != primary {
					delete(r.Metrics, name)
				}
			}
		}
	}
	return r
}
