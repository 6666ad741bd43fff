package remote

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/futex"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
)

// Turn is the end of the turn in a worker process, which does not look at numbers of workers: it serves one. It answers
// [Turn.Methods].
type Turn struct {
	meters traffic.Meters
	now    func() int64 // CLOCK_MONOTONIC in ns; tests have others
	name   string       // of that clock
	called uint32       // wait word: ticket of the last trial

	mu     sync.Mutex            // of the methods; threads do not take it
	over   uint32                // this trial and all before it have ended
	trial  atomic.Pointer[trial] // the last one; nil if it was shut
	passed atomic.Uint32         // see Ordered
}

var _ traffic.Turn = (*Turn)(nil)

// States of a trial's gate.
const (
	gateClosed = iota
	gateOpen   // from the window's opening on
	gateShut
)

// A trial is the part of this worker in a trial. Its threads allocate nothing.
type trial struct {
	ticket  uint32
	cell    int
	threads int32 // that take part
	seats   []seat

	gate          uint32         // wait word
	window        traffic.Window // set before the gate opens
	arrived, left atomic.Int32
	all, none     chan struct{} // room for one: all have arrived, none is left

	softirqd, probe int64 // negative when the gate opens; what was counted when none is left
}

// seat holds the times of a thread; 0 before.
type seat struct{ arrived, began, left atomic.Int64 }

// NewTurn returns a turn that no controller has called yet.
func NewTurn() *Turn { return &Turn{now: clock.Now, name: clock.Name()} }

// Open returns the turn, which reads these meters from now on. It is called once, before the first trial. If several
// workers are on one machine, only one of them has meters of that machine: the controller adds them up.
func (t *Turn) Open(m traffic.Meters) (traffic.Turn, error) {
	t.meters = m
	return t, nil
}

// Methods returns the methods with which the controller passes the turn. They must not wait for others of the worker.
func (t *Turn) Methods() protocol.Methods {
	return protocol.Methods{
		Clock: protocol.Method(t.clock), Call: protocol.Method(t.call), Open: protocol.Method(t.open),
		Shut: protocol.Method(t.shut),
	}
}

func (t *Turn) clock(context.Context, struct{}) (clockAnswer, error) {
	now := t.now()
	return clockAnswer{times{now, now}, t.name}, nil
}

func (t *Turn) call(ctx context.Context, p callParams) (times, error) {
	received := t.now()
	a, err := t.begin(p)
	if err != nil {
		return times{}, err
	}
	select {
	case <-a.all:
		return times{received, t.now()}, nil
	case <-ctx.Done(): // the controller shuts the trial
		return times{}, ctx.Err()
	}
}

// begin gives the turn to the threads.
func (t *Turn) begin(p callParams) (*trial, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.Ticket <= max(t.over, t.called) {
		return nil, fmt.Errorf("trial %d is over", p.Ticket) // it was shut, and that was faster
	}
	a := &trial{
		ticket: p.Ticket, cell: p.Cell, threads: int32(p.Threads), seats: make([]seat, p.Pairs),
		all: make(chan struct{}, 1), none: make(chan struct{}, 1),
	}
	t.trial.Store(a)
	atomic.StoreUint32(&t.called, p.Ticket)
	futex.Wake(&t.called, math.MaxInt32)
	return a, nil
}

func (t *Turn) open(ctx context.Context, p openParams) (openAnswer, error) {
	received := t.now()
	a := t.of(p.Ticket)
	if a == nil {
		return openAnswer{}, fmt.Errorf("trial %d is over", p.Ticket)
	}
	if t.meters.Softirqd != nil {
		a.softirqd = -t.meters.Softirqd()
	}
	if t.meters.Probe != nil {
		a.probe = -t.meters.Probe()
	}
	a.window = p.Window
	atomic.CompareAndSwapUint32(&a.gate, gateClosed, gateOpen)
	futex.Wake(&a.gate, math.MaxInt32)
	select {
	case <-a.none:
	case <-ctx.Done():
		return openAnswer{}, ctx.Err()
	}
	select {
	case <-time.After(time.Duration(p.Quiet - t.now())):
	case <-ctx.Done():
		return openAnswer{}, ctx.Err()
	}
	r := openAnswer{Softirqd: a.softirqd, Probe: a.probe}
	for i := range a.seats {
		if s := &a.seats[i]; s.left.Load() != 0 {
			r.Late = max(r.Late, s.began.Load()-p.Window.Open)
			r.Ended = max(r.Ended, s.left.Load())
		}
	}
	r.times = times{received, t.now()}
	return r, nil
}

func (t *Turn) shut(_ context.Context, p shutParams) (shutAnswer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := shutAnswer{times: times{Received: t.now()}}
	t.over = max(t.over, p.Ticket)
	if a := t.of(p.Ticket); a != nil {
		atomic.StoreUint32(&a.gate, gateShut)
		futex.Wake(&a.gate, math.MaxInt32)
		for pair := range a.seats {
			if a.seats[pair].arrived.Load() != 0 {
				r.Arrived = append(r.Arrived, pair)
			}
			if a.seats[pair].left.Load() != 0 {
				r.Left = append(r.Left, pair)
			}
		}
		t.trial.Store(nil) // a thread that returns late finds nothing
	}
	r.Answered = t.now()
	return r, nil
}

// of returns the trial of a ticket; nil if it is over.
func (t *Turn) of(ticket uint32) *trial {
	if a := t.trial.Load(); a != nil && a.ticket == ticket {
		return a
	}
	return nil
}

// Last implements [traffic.Turn].
func (t *Turn) Last(int) uint32 { return atomic.LoadUint32(&t.called) }

// Await implements [traffic.Turn].
func (t *Turn) Await(_ int, last uint32) (uint32, error) {
	for {
		if ticket := atomic.LoadUint32(&t.called); ticket != last {
			t.Ordered()
			return ticket, nil
		}
		if err := futex.Wait(&t.called, last, 0); err != nil {
			return 0, fmt.Errorf("wait for the turn: %w", err)
		}
	}
}

// Cell implements [traffic.Turn].
func (t *Turn) Cell(ticket uint32) (int, bool) {
	a := t.of(ticket)
	if a == nil {
		return 0, false
	}
	return a.cell, true
}

// Arrive implements [traffic.Turn]. It returns at the opening, not before.
func (t *Turn) Arrive(ticket uint32, s traffic.Seat) (traffic.Window, error) {
	a := t.of(ticket)
	if a == nil || s.Pair >= len(a.seats) {
		return traffic.Window{}, traffic.ErrGate
	}
	t.Ordered()
	at := &a.seats[s.Pair]
	at.arrived.Store(t.now())
	if a.arrived.Add(1) == a.threads {
		a.all <- struct{}{}
	}
	for atomic.LoadUint32(&a.gate) == gateClosed {
		_ = futex.Wait(&a.gate, gateClosed, 0) // the word decides
	}
	thread.Punctual(true)
	for atomic.LoadUint32(&a.gate) == gateOpen {
		rest := a.window.Open - t.now()
		if rest <= 0 {
			break
		}
		_ = futex.WaitUntil(&a.gate, gateOpen, clock.Now()+rest) // whatever ends it, the time decides
	}
	thread.Punctual(false)
	if atomic.LoadUint32(&a.gate) == gateShut {
		return traffic.Window{}, traffic.ErrGate
	}
	t.Ordered()
	at.began.Store(t.now())
	return a.window, nil
}

// Leave implements [traffic.Turn].
func (t *Turn) Leave(ticket uint32, s traffic.Seat) {
	a := t.of(ticket)
	if a == nil {
		return
	}
	a.seats[s.Pair].left.Store(t.now())
	t.Ordered()
	if a.left.Add(1) != a.threads {
		return
	}
	if t.meters.Softirqd != nil {
		a.softirqd += t.meters.Softirqd()
	}
	if t.meters.Probe != nil {
		a.probe += t.meters.Probe()
	}
	a.none <- struct{}{}
}

// Ordered implements [traffic.Turn]: a caller comes after all earlier callers.
func (t *Turn) Ordered() { t.passed.Add(1) }
