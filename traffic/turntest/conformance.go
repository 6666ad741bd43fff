package turntest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	workers = 2
	pairs   = 2
	cells   = 3
)

// Open makes the controller's end of one turn, and those of the workers.
type Open func(t *testing.T, l traffic.Layout) (traffic.Turns, Ends)

// Ends returns the end of a worker.
type Ends func(worker int) traffic.Turn

// Same returns an end that all workers share.
func Same(turn traffic.Turn) Ends { return func(int) traffic.Turn { return turn } }

// Conformance checks that a turn runs trials in order, opens the gate for all threads at once, names the threads that
// block a trial, and can be interrupted. Its trials are that long: clocks that are known less exactly need longer ones.
func Conformance(t *testing.T, length time.Duration, open Open) {
	t.Run("order", func(t *testing.T) { order(t, open, length) })
	t.Run("missing", func(t *testing.T) { missing(t, open, length) })
	t.Run("hanging", func(t *testing.T) { hanging(t, open, length) })
	t.Run("interrupted", func(t *testing.T) { interrupted(t, open) })
}

// watched reports when a thread has left a trial.
type watched struct {
	traffic.Turn
	left chan traffic.Seat // nil: no reports
}

func (w watched) Leave(ticket uint32, s traffic.Seat) {
	w.Turn.Leave(ticket, s)
	if w.left != nil {
		w.left <- s
	}
}

// stand makes a turn for some cells of all workers, and threads that drive endpoints through it.
func stand(t *testing.T, open Open, length time.Duration, left chan traffic.Seat,
	endpoint func(traffic.Seat) traffic.Endpoint,
) traffic.Turns {
	t.Helper()
	turns, ends := open(t, traffic.Layout{Workers: workers, Pairs: pairs, Cells: cells})
	for cell := range cells {
		plan := traffic.CellPlan{Warm: length / 10, Length: length}
		for w := range workers {
			plan.Workers, plan.Threads = append(plan.Workers, w), append(plan.Threads, pairs)
		}
		if err := turns.SetCell(cell, plan); err != nil {
			t.Fatal(err)
		}
	}
	ready, ids := make(chan error, workers*pairs), make(chan int, workers*pairs)
	for w := range workers {
		for pair := range pairs {
			seat := traffic.Seat{Worker: w, Pair: pair}
			th := &traffic.Thread{
				Turn: watched{ends(w), left}, Seat: seat, Run: 1, Ready: ready, ThreadIDs: ids,
				Endpoint: func(int) traffic.Endpoint { return endpoint(seat) },
			}
			go th.Serve()
		}
	}
	for range workers * pairs {
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
	}
	return turns
}

func threads(int) int { return pairs }

// seen is what endpoints have observed in trials.
type seen struct {
	mu      sync.Mutex
	trials  []uint64
	windows map[uint64][]traffic.Window
}

// idle is an endpoint that waits for the close of its trial, or does something else.
type idle struct {
	*seen
	sample  traffic.Sample
	instead func(w traffic.Window)
}

func (i *idle) Prepare(uint64) { i.sample = traffic.Sample{} }

func (i *idle) Run(trial uint64, w traffic.Window) {
	i.mu.Lock()
	if len(i.windows[trial]) == 0 {
		i.trials = append(i.trials, trial)
	}
	i.windows[trial] = append(i.windows[trial], w)
	i.mu.Unlock()
	if i.instead != nil {
		i.instead(w)
		return
	}
	time.Sleep(time.Duration(w.Close - clock.Now()))
}

func (i *idle) Sample() *traffic.Sample    { return &i.sample }
func (*idle) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (*idle) Facts() (sock.Facts, error)   { return sock.Facts{}, nil }
func (*idle) Close()                       {}

func order(t *testing.T, open Open, length time.Duration) {
	s := &seen{windows: map[uint64][]traffic.Window{}}
	turns := stand(t, open, length, nil, func(traffic.Seat) traffic.Endpoint { return &idle{seen: s} })
	for _, order := range [][]int{{2, 0, 1}, {1}, {0, 2}, {}} {
		s.mu.Lock()
		s.trials = nil
		s.mu.Unlock()
		timings, err := turns.Run(t.Context(), order, threads)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i, x := range timings {
			got = append(got, x.Cell)
			if !x.Done || x.Dead < 0 || x.Drain < 0 || i > 0 && x.Opened < timings[i-1].Opened+int64(length) {
				t.Errorf("trial %d of block %v: %+v", i, order, x)
			}
		}
		if diff := cmp.Diff(order, append([]int{}, got...)); diff != "" {
			t.Errorf("trials (-want +got):\n%s", diff)
		}
		s.mu.Lock()
		if len(s.trials) != len(order) || !slices.IsSorted(s.trials) {
			t.Errorf("block %v had trials %d", order, s.trials)
		}
		for i, trial := range s.trials {
			if n := len(s.windows[trial]); n != workers*pairs {
				t.Errorf("%d threads had a window, want %d", n, workers*pairs)
			}
			for _, got := range s.windows[trial] {
				// All windows are those of the trial, as exactly as the clocks of the workers are known.
				apart := got.Open - timings[i].Opened
				want := traffic.Window{
					Open: timings[i].Opened + apart, Start: timings[i].Opened + apart + int64(length/10),
					Close: timings[i].Opened + apart + int64(length),
				}
				if diff := cmp.Diff(want, got); diff != "" || max(apart, -apart) > int64(timings[i].Skew) {
					t.Errorf("window %v from that of the trial, whose windows may be %v apart; (-want +got):\n%s",
						time.Duration(apart), timings[i].Skew, diff)
				}
			}
		}
		s.mu.Unlock()
	}
}

// stalled runs a block in which one thread blocks the first trial, and then one without a fault.
func stalled(t *testing.T, turns traffic.Turns, want traffic.StalledError, free func()) {
	t.Helper()
	timings, err := turns.Run(t.Context(), []int{want.Cell, 0}, threads)
	var got *traffic.StalledError
	if !errors.As(err, &got) {
		t.Fatalf("error %v, want who holds the trial up", err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("who holds the trial up (-want +got):\n%s", diff)
	}
	if timings[0].Done || timings[1].Done {
		t.Errorf("trials are done: %+v", timings)
	}
	free()
	if timings, err = turns.Run(t.Context(), []int{0, 1}, threads); err != nil || !timings[0].Done || !timings[1].Done {
		t.Errorf("the next block: %v, %+v", err, timings)
	}
}

func missing(t *testing.T, open Open, length time.Duration) {
	var away sync.Mutex
	late := traffic.Seat{Worker: 1, Pair: 0}
	s := &seen{windows: map[uint64][]traffic.Window{}}
	turns := stand(t, open, length, nil, func(seat traffic.Seat) traffic.Endpoint {
		if seat == late {
			away.Lock()
			defer away.Unlock()
		}
		return &idle{seen: s}
	})
	away.Lock()
	stalled(t, turns, traffic.StalledError{Cell: 2, Missing: []traffic.Seat{late}}, away.Unlock)
}

func hanging(t *testing.T, open Open, length time.Duration) {
	hangs := traffic.Seat{Worker: 0, Pair: 1}
	end := make(chan struct{})
	s := &seen{windows: map[uint64][]traffic.Window{}}
	left := make(chan traffic.Seat, 100) // more than there are threads and trials
	turns := stand(t, open, length, left, func(seat traffic.Seat) traffic.Endpoint {
		e := &idle{seen: s}
		if seat == hangs {
			e.instead = func(traffic.Window) { <-end }
		}
		return e
	})
	stalled(t, turns, traffic.StalledError{Cell: 1, Opened: true, Missing: []traffic.Seat{hangs}}, func() {
		close(end)
		for <-left != hangs { // it returned too late
		}
	})
}

func interrupted(t *testing.T, open Open) {
	const long = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan struct{})
	defer close(end)
	s := &seen{windows: map[uint64][]traffic.Window{}}
	turns := stand(t, open, long, nil, func(traffic.Seat) traffic.Endpoint {
		return &idle{seen: s, instead: func(traffic.Window) { cancel(); <-end }}
	})
	timings, err := turns.Run(ctx, []int{0, 1}, threads)
	if !errors.Is(err, context.Canceled) || timings[0].Done || timings[1].Opened != 0 {
		t.Errorf("error %v, trials %+v", err, timings)
	}
}
