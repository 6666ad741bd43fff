package turntest

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/traffic"
)

// Fake implements both ends of a turn within one process, with a mutex and a condition variable. The zero value is
// ready.
type Fake struct {
	// Gate is how long threads that have arrived wait for the others, and Stall how long after its drain a trial may
	// end; 0: a second, as on the board.
	Gate, Stall time.Duration

	mu     sync.Mutex
	wait   sync.Cond
	plans  map[int]traffic.CellPlan
	called map[int]uint32 // ticket by worker
	next   uint32         // ticket
	trial  *trial         // the trial with the turn; nil between blocks
}

// trial is a trial that has the turn.
type trial struct {
	ticket        uint32
	cell          int
	plan          traffic.CellPlan
	arrived, left map[traffic.Seat]bool
	opened, ended int64
	shut          bool // it will not open any more
}

var (
	_ traffic.Turns = (*Fake)(nil)
	_ traffic.Turn  = (*Fake)(nil)
)

// cond returns the condition for which threads wait. The caller holds the mutex.
func (f *Fake) cond() *sync.Cond {
	if f.wait.L == nil {
		f.wait.L = &f.mu
		f.plans, f.called = map[int]traffic.CellPlan{}, map[int]uint32{}
	}
	return &f.wait
}

// SetCell implements [traffic.Turns].
func (f *Fake) SetCell(cell int, p traffic.CellPlan) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cond()
	f.plans[cell] = p
	return nil
}

// Run implements [traffic.Turns].
func (f *Fake) Run(ctx context.Context, order []int, threads func(worker int) int) ([]traffic.Timing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cond()
	wake := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cond().Broadcast()
	}
	defer context.AfterFunc(ctx, wake)()
	timings := make([]traffic.Timing, len(order))
	for i, cell := range order {
		timings[i].Cell = cell
	}
	previous := clock.Now()
	for i, cell := range order {
		f.next++
		t := &trial{
			ticket: f.next, cell: cell, plan: f.plans[cell], arrived: map[traffic.Seat]bool{}, left: map[traffic.Seat]bool{},
		}
		f.trial = t
		for _, w := range t.plan.Workers {
			f.called[w] = t.ticket
		}
		f.cond().Broadcast()
		begun := clock.Now()
		limit := func() int64 {
			if t.opened == 0 {
				return begun + int64(or(f.Gate))
			}
			return t.opened + int64(t.plan.Length+traffic.DrainLimit+or(f.Stall))
		}
		for t.ended == 0 && ctx.Err() == nil && clock.Now() < limit() {
			alarm := time.AfterFunc(time.Duration(limit()-clock.Now()), wake)
			f.cond().Wait()
			alarm.Stop()
		}
		timings[i].Opened = t.opened
		if t.ended == 0 {
			t.shut = true
			f.trial = nil
			f.cond().Broadcast()
			if ctx.Err() != nil {
				return timings, ctx.Err()
			}
			return timings, t.stalled(threads)
		}
		timings[i].Done = true
		timings[i].Dead = time.Duration(t.opened - previous)
		timings[i].Drain = max(0, time.Duration(t.ended-t.opened)-t.plan.Length)
		previous = t.ended
	}
	f.trial = nil
	return timings, ctx.Err()
}

func or(limit time.Duration) time.Duration {
	if limit == 0 {
		return time.Second
	}
	return limit
}

// threads returns the number of threads that take part.
func (t *trial) threads() (sum int) {
	for _, n := range t.plan.Threads {
		sum += n
	}
	return sum
}

func (t *trial) stalled(threads func(worker int) int) *traffic.StalledError {
	e := &traffic.StalledError{Cell: t.cell, Opened: t.opened != 0}
	done := t.arrived
	if e.Opened {
		done = t.left
	}
	for _, w := range t.plan.Workers {
		for pair := range threads(w) {
			if seat := (traffic.Seat{Worker: w, Pair: pair}); !done[seat] {
				e.Missing = append(e.Missing, seat)
			}
		}
	}
	return e
}

// Files implements [traffic.Turns]. Nothing is inherited.
func (*Fake) Files() map[string]*os.File { return nil }

// Close implements [traffic.Turns].
func (*Fake) Close() error { return nil }

// Last implements [traffic.Turn].
func (f *Fake) Last(worker int) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.called[worker]
}

// Await implements [traffic.Turn].
func (f *Fake) Await(worker int, last uint32) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.cond(); f.called[worker] == last; {
		f.cond().Wait()
	}
	return f.called[worker], nil
}

// of returns the trial of a ticket if it has the turn.
func (f *Fake) of(ticket uint32) *trial {
	if f.trial == nil || f.trial.ticket != ticket {
		return nil
	}
	return f.trial
}

// Cell implements [traffic.Turn].
func (f *Fake) Cell(ticket uint32) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.of(ticket); t != nil {
		return t.cell, true
	}
	return 0, false
}

// Arrive implements [traffic.Turn].
func (f *Fake) Arrive(ticket uint32, s traffic.Seat) (traffic.Window, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.of(ticket)
	if t == nil {
		return traffic.Window{}, traffic.ErrGate
	}
	t.arrived[s] = true
	if len(t.arrived) == t.threads() && !t.shut {
		t.opened = clock.Now()
		f.cond().Broadcast()
	}
	for t.opened == 0 && !t.shut {
		f.cond().Wait()
	}
	if t.opened == 0 {
		return traffic.Window{}, traffic.ErrGate
	}
	return traffic.Window{Open: t.opened, Start: t.opened + int64(t.plan.Warm), Close: t.opened + int64(t.plan.Length)},
		nil
}

// Leave implements [traffic.Turn].
func (f *Fake) Leave(ticket uint32, s traffic.Seat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.of(ticket)
	if t == nil {
		return
	}
	if t.left[s] = true; len(t.left) == t.threads() {
		t.ended = clock.Now()
		f.cond().Broadcast()
	}
}

// Ordered implements [traffic.Turn]. The mutex establishes the order.
func (f *Fake) Ordered() {
	f.mu.Lock()
	defer f.mu.Unlock()
}
