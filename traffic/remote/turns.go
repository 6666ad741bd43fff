package remote

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// gateLimit is how long the threads of a trial have to arrive, as on the board.
	gateLimit = time.Second
	// stallLimit is how long after its drain a trial may end. After that, it counts as hanging.
	stallLimit = time.Second
	// interruptLimit is how long an interrupted trial may go on, so that a run can end within a second.
	interruptLimit = 500 * time.Millisecond
	// spare is how much longer than its drain an interrupted trial has to end.
	spare = 50 * time.Millisecond
	// shutLimit is how long workers have to give up a trial. One that hangs is left alone after that.
	shutLimit = 300 * time.Millisecond

	// exchanges is how many times a clock is read before each block. NTP likewise chooses from its last eight exchanges
	// (RFC 5905, NSTAGE).
	exchanges = 8
	// recent is how many of the last messages to a worker say how long the next one may take.
	recent = 16
	// margin is how much longer than the slowest of them an opening is ahead: a process that has the message still has to
	// wake its threads.
	margin = 500 * time.Microsecond
)

// Turns is the controller's end of the turn. [New] makes one.
type Turns struct {
	plans  map[int]traffic.CellPlan
	ticket uint32                // of the last trial
	hush   []func(time.Duration) // see Hush

	mu      sync.Mutex // labs start their workers at the same time
	workers map[int]*worker
	meters  []*meter
}

var _ traffic.Metering = (*Turns)(nil)

// worker is what the controller knows of a worker.
type worker struct {
	number  int
	machine string // on which it is; "": not known
	call    traffic.Caller
	clock   offset
	reads   string // which clock, see clock.Name; "": one of its own
	// The last messages to it, newest first, at most recent.
	passages []passage
	last     *traffic.Timing // of its last trial in this block; nil before
}

// passage is how long a message took.
type passage struct {
	there int64 // from the controller's clock to the worker's, so the difference of the clocks is part of it; ns
	trip  int64 // there and back; ns
}

// New returns a turn without workers.
func New() *Turns { return &Turns{plans: map[int]traffic.CellPlan{}, workers: map[int]*worker{}} }

// Hush has a function called before each trial, with how long nobody may send anything that the trial does not.
func (t *Turns) Hush(f func(quiet time.Duration)) { t.hush = append(t.hush, f) }

// Join implements [traffic.Called].
func (t *Turns) Join(number int, call traffic.Caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers[number] = &worker{number: number, call: call}
}

// SetCell implements [traffic.Turns].
func (t *Turns) SetCell(cell int, p traffic.CellPlan) error {
	t.plans[cell] = p
	return nil
}

// Files implements [traffic.Turns]. Nothing is inherited.
func (*Turns) Files() map[string]*os.File { return nil }

// Close implements [traffic.Turns]. The connections belong to who made them.
func (*Turns) Close() error { return nil }

// Run implements [traffic.Turns]. It reads the clocks of all workers of the block, and then runs the trials.
//
// A trial is refused ([traffic.Timing.Refused]) if a thread began after its window began to count, if a clock changed,
// or if the clocks are known so badly that the windows may have been apart by more than half of what counts. The block
// goes on after that: a thread that the kernel woke late says nothing about the next trial.
func (t *Turns) Run(ctx context.Context, order []int, threads func(worker int) int) ([]traffic.Timing, error) {
	timings := make([]traffic.Timing, len(order))
	for i, cell := range order {
		timings[i].Cell = cell
		for _, number := range t.plans[cell].Workers {
			if t.workers[number] == nil {
				return timings, fmt.Errorf("worker %d of cell %d has not joined the turn", number, cell)
			}
		}
	}
	ended := clock.Now()
	for _, w := range t.workers {
		w.last = nil
	}
	for _, m := range t.meters {
		m.lost = false
	}
	if err := t.readClocks(ctx, exchanges, order, threads); err != nil {
		return timings, err
	}
	for i := range timings {
		if err := ctx.Err(); err != nil {
			return timings, err
		}
		t.ticket++
		a := attempt{ticket: t.ticket, timing: &timings[i], plan: t.plans[order[i]], all: threads, hush: t.hush}
		for _, number := range a.plan.Workers {
			a.workers = append(a.workers, t.workers[number])
		}
		a.meters = t.metersOf(a.workers)
		var err error
		if ended, err = a.run(ctx, ended); err != nil {
			return timings, err
		}
	}
	// Whether the clocks are still the same decides about the last trials.
	if err := t.readClocks(ctx, 1, order, threads); err != nil {
		return timings, err
	}
	return timings, ctx.Err()
}

// readClocks measures the offsets of the clocks of all workers of a block some times, of all of them at the same time.
func (t *Turns) readClocks(ctx context.Context, exchanges int, order []int, threads func(worker int) int) error {
	a := attempt{all: threads}
	first := map[*worker]int{} // the cell in which it is missing first
	for _, cell := range order {
		for _, number := range t.plans[cell].Workers {
			if w := t.workers[number]; !slices.Contains(a.workers, w) {
				a.workers, first[w] = append(a.workers, w), cell
			}
		}
	}
	for range exchanges {
		calls := ask[clockAnswer](ctx, a.workers, Clock, func(int) any { return nil })
		silent, err := calls.wait(ctx, a.patience(gateLimit), func(i int, x exchange[clockAnswer]) {
			a.workers[i].reads = x.result.Name
			a.workers[i].learn(x.sent, x.sent, x.result.times, x.got)
		})
		calls.cancel()
		if err != nil {
			return err
		}
		if len(silent) > 0 {
			e := &traffic.StalledError{Cell: first[a.workers[silent[0]]]}
			for _, i := range silent {
				e.Missing = append(e.Missing, a.seats(i, nil)...)
			}
			return e
		}
	}
	return nil
}

// An attempt is one trial.
type attempt struct {
	ticket  uint32
	timing  *traffic.Timing
	plan    traffic.CellPlan
	workers []*worker // that take part
	all     func(worker int) int
	meters  []*meter
	hush    []func(time.Duration)
}

// run runs the trial and returns when it ended. The one before it ended at previous.
func (a *attempt) run(ctx context.Context, previous int64) (ended int64, err error) {
	metered := readAll(ctx, a.meters)
	calls := ask[times](ctx, a.workers, Call, func(i int) any {
		w := a.workers[i]
		return callParams{Ticket: a.ticket, Cell: a.timing.Cell, Threads: a.plan.Threads[i], Pairs: a.all(w.number)}
	})
	defer calls.cancel()
	silent, err := calls.wait(ctx, a.patience(gateLimit), func(i int, x exchange[times]) {
		a.workers[i].learn(x.sent, x.sent, x.result, x.got)
	})
	if err != nil || len(silent) > 0 {
		return 0, a.abandon(ctx, err)
	}
	before := metered() // so that no answer travels while the trial runs

	opening, orders := a.orders()
	for _, f := range a.hush {
		f(time.Duration(opening.at-opening.decided) + a.plan.Length + opening.skew + traffic.DrainLimit)
	}
	for _, w := range a.workers {
		w.last = a.timing
	}
	open := ask[openAnswer](ctx, a.workers, Open, func(i int) any { return orders[i] })
	defer open.cancel()
	decided := opening.decided
	a.timing.Opened, a.timing.Skew, a.timing.Apart = opening.at, opening.skew, opening.apart
	ended = opening.at
	answered := func(i int, x exchange[openAnswer]) {
		w, plan, r := a.workers[i], orders[i].Window, x.result
		w.learn(decided, x.sent, r.times, x.got)
		if late := time.Duration(r.Late); late > a.plan.Warm {
			refuse(a.timing, "worker %d began %v after the opening, and the warm-up ends after %v", w.number, late, a.plan.Warm)
		}
		a.timing.Late = max(a.timing.Late, time.Duration(r.Late))
		a.timing.Drain = max(a.timing.Drain, time.Duration(r.Ended-plan.Close))
		a.timing.Softirqd += time.Duration(r.Softirqd)
		a.timing.Probe += r.Probe
		ended = max(ended, opening.at+r.Ended-plan.Open)
	}
	// An interrupted trial is finished if it ends soon.
	travel := a.patience(0)
	finish, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		rest := time.Duration(opening.at-clock.Now()) + a.plan.Length + traffic.DrainLimit + spare + travel
		if rest > interruptLimit {
			cancel()
			return
		}
		time.AfterFunc(rest, cancel)
	})()
	limit := time.Duration(opening.at-decided) + a.plan.Length + opening.skew + traffic.DrainLimit + stallLimit + travel
	silent, err = open.wait(finish, limit, answered)
	if err != nil && finish.Err() != nil {
		err = ctx.Err()
	}
	if err != nil || len(silent) > 0 {
		return 0, a.abandon(ctx, err)
	}
	a.timing.Done = a.timing.Refused == ""
	if counted := a.plan.Length - a.plan.Warm; a.timing.Skew > counted/2 {
		refuse(a.timing, "the windows of its workers, of %v, may be %v apart: their clocks are not known more exactly",
			counted, a.timing.Skew)
	}
	a.timing.Dead = time.Duration(opening.at - previous)
	a.timing.Metered = since(a.meters, before, readAll(ctx, a.meters)())
	return ended, nil
}

// refuse says why a trial does not count. The first reason stays.
func refuse(x *traffic.Timing, format string, args ...any) {
	x.Done = false
	if x.Refused == "" {
		x.Refused = fmt.Sprintf(format, args...)
	}
}

// patience is a limit for calls to the workers, which must also travel.
func (a *attempt) patience(limit time.Duration) time.Duration {
	var longest int64
	for _, w := range a.workers {
		for _, p := range w.passages {
			longest = max(longest, p.trip)
		}
	}
	return limit + 2*time.Duration(longest)
}

// An opening is when a trial opens, in the controller's clock.
type opening struct {
	decided int64 // when that was decided; ns
	at      int64 // ns
	skew    time.Duration
	apart   time.Duration // of the workers' clocks
}

// orders chooses the opening so that all workers have their order before, as far as the last messages tell, and
// translates it into their clocks.
func (a *attempt) orders() (opening, []openParams) {
	var ahead, worst, second int64
	o := opening{decided: clock.Now()}
	for _, w := range a.workers {
		for _, p := range w.passages {
			// If the halves of a round trip differ, the offset is wrong by half of that difference, and so is this: the
			// order will be on time in the worker's clock, in which it is written.
			ahead = max(ahead, p.there-w.clock.ns)
		}
	}
	o.at = o.decided + ahead + int64(margin)
	window := traffic.Window{Open: o.at, Start: o.at + int64(a.plan.Warm), Close: o.at + int64(a.plan.Length)}
	for _, w := range a.workers {
		if e := w.clock.error(window.Close); e > worst {
			worst, second = e, worst
		} else {
			second = max(second, e)
		}
	}
	if len(a.workers) > 1 {
		o.skew = time.Duration(worst + second)
	}
	orders := make([]openParams, len(a.workers))
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i, w := range a.workers {
		by := a.offset(w, window.Close)
		least, most = min(least, by), max(most, by)
		orders[i] = openParams{
			Ticket: a.ticket,
			Window: traffic.Window{Open: window.Open + by, Start: window.Start + by, Close: window.Close + by},
			Quiet:  window.Close + by + int64(o.skew),
		}
	}
	o.apart = time.Duration(most - least)
	return o, orders
}

// offset returns how far the clock of a worker is ahead of the controller's at a time, in ns. Workers that read the
// same clock get the same one, the least wrong of theirs: their windows open together, and times that one of them
// writes mean the same to the others.
func (a *attempt) offset(w *worker, at int64) int64 {
	best := &w.clock
	if w.reads == "" {
		return best.ns
	}
	for _, other := range slices.Backward(a.workers) { // of equals the first, whichever worker asks
		if other.reads == w.reads && other.clock.error(at) <= best.error(at) {
			best = &other.clock
		}
	}
	return best.ns
}

// abandon ends the trial early and returns why: the given error, or that it stalled.
func (a *attempt) abandon(ctx context.Context, why error) error {
	// Calls that still wait are of no use; the answers to these ones say who did not arrive, or not leave.
	calls := ask[shutAnswer](ctx, a.workers, Shut, func(int) any { return shutParams{a.ticket} })
	defer calls.cancel()
	answers := make([]shutAnswer, len(a.workers))
	lost := calls.all(shutLimit, func(i int, x exchange[shutAnswer]) { answers[i] = x.result })
	if why != nil {
		return why
	}
	if lost != nil {
		return lost
	}
	e := &traffic.StalledError{Cell: a.timing.Cell, Opened: a.timing.Opened != 0}
	for i := range a.workers {
		done := answers[i].Arrived
		if e.Opened {
			done = answers[i].Left
		}
		e.Missing = append(e.Missing, a.seats(i, done)...)
	}
	return e
}

// seats lists the threads of a worker but those of some pairs.
func (a *attempt) seats(i int, but []int) (seats []traffic.Seat) {
	number := a.workers[i].number
	for pair := range a.all(number) {
		if !slices.Contains(but, pair) {
			seats = append(seats, traffic.Seat{Worker: number, Pair: pair})
		}
	}
	return seats
}
