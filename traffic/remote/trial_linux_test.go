package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/traffic"
)

// skewed returns a clock that is ahead and runs fast, both of which may be negative; and the time at which it shows
// some value.
func skewed(ahead time.Duration, ppm int64) (now func() int64, truth func(shown int64) int64) {
	start := clock.Now()
	now = func() int64 {
		since := clock.Now() - start
		return start + int64(ahead) + since + since*ppm/1_000_000
	}
	truth = func(shown int64) int64 {
		since := shown - int64(ahead) - start
		return start + since - since*ppm/(1_000_000+ppm)
	}
	return now, truth
}

// seen is what a thread has seen of a trial, in the machine's clock.
type seen struct {
	worker      int
	began, left int64
	window      traffic.Window // in the worker's clock
}

// drive runs a thread of a worker for ever. It spends each trial until its close, or does something else.
func drive(p *peer, worker int, instead func(w traffic.Window), report chan<- seen) {
	seat := traffic.Seat{Worker: worker}
	for last := uint32(0); ; {
		ticket, err := p.turn.Await(worker, last)
		if err != nil {
			panic(err)
		}
		last = ticket
		w, err := p.turn.Arrive(ticket, seat)
		if err != nil {
			continue
		}
		s := seen{worker: worker, began: clock.Now(), window: w}
		if instead != nil {
			instead(w)
		} else {
			time.Sleep(time.Duration(w.Close - p.turn.now()))
		}
		s.left = clock.Now()
		p.turn.Leave(ticket, seat)
		if report != nil {
			report <- s
		}
	}
}

func one(int) int { return 1 }

// set describes cell 0: one thread of each worker.
func set(t testing.TB, turns traffic.Turns, workers int, warm, length time.Duration) {
	t.Helper()
	plan := traffic.CellPlan{Warm: warm, Length: length}
	for w := range workers {
		plan.Workers, plan.Threads = append(plan.Workers, w), append(plan.Threads, 1)
	}
	if err := turns.SetCell(0, plan); err != nil {
		t.Fatal(err)
	}
}

// Windows are as far apart as the turn says, or less, whatever the clocks show and however they drift. The truth is the
// clock of the machine, from which the clocks of the workers are made.
func TestClocks(t *testing.T) {
	const trials = 20
	for _, c := range []struct {
		name        string
		ahead       []time.Duration
		ppm         []int64
		there, back []time.Duration
		least, most time.Duration // between the openings, if the delays make them differ
		known       time.Duration // how exactly the turn knows that
	}{
		{
			name: "as they are", ahead: []time.Duration{0, 0}, ppm: []int64{0, 0}, there: make([]time.Duration, 2),
			back: make([]time.Duration, 2), most: 5 * time.Millisecond, known: 10 * time.Millisecond,
		},
		{
			name: "hours and drift", ahead: []time.Duration{5 * time.Hour, -3 * time.Hour}, ppm: []int64{200, -200},
			there: make([]time.Duration, 2), back: make([]time.Duration, 2), most: 5 * time.Millisecond,
			known: 10 * time.Millisecond,
		},
		{ // the offset of worker 0 is wrong by 9 ms
			name: "asymmetric", ahead: []time.Duration{time.Hour, 0}, ppm: []int64{0, 200},
			there: []time.Duration{20 * time.Millisecond, 3 * time.Millisecond},
			back:  []time.Duration{2 * time.Millisecond, 3 * time.Millisecond},
			least: 7 * time.Millisecond, most: 11 * time.Millisecond, known: 20 * time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			turns, peers := meet(t, 2, func(w int) delay { return constant(c.there[w]) },
				func(w int) delay { return constant(c.back[w]) })
			reports := make(chan seen, 2*trials)
			truths := make([]func(int64) int64, len(peers))
			for i, p := range peers {
				p.turn.now, truths[i] = skewed(c.ahead[i], c.ppm[i])
				go drive(p, i, nil, reports)
			}
			set(t, turns, 2, 50*time.Millisecond, 150*time.Millisecond)
			timings, err := turns.Run(t.Context(), make([]int, trials), one)
			if err != nil {
				t.Fatal(err)
			}
			var gaps, skews, lates, untold []time.Duration
			for _, x := range timings {
				if !x.Done {
					t.Fatalf("%+v", x)
				}
				both := []seen{<-reports, <-reports}
				slices.SortFunc(both, func(a, b seen) int { return a.worker - b.worker })
				var opened [2]int64
				var latest time.Duration
				for i, s := range both {
					opened[i] = truths[i](s.window.Open)
					late := time.Duration(s.began - opened[i])
					if late < -time.Microsecond { // the clocks of workers are rounded
						t.Errorf("a thread began %v before the opening of its worker", -late)
					}
					latest = max(latest, late)
				}
				untold = append(untold, latest-x.Late)
				gap := time.Duration(max(opened[0]-opened[1], opened[1]-opened[0]))
				if gap > x.Skew {
					t.Errorf("windows were %v apart, and at most %v are reported", gap, x.Skew)
				}
				ahead := c.ahead[0] - c.ahead[1]
				if drifted := 10 * time.Millisecond; max(x.Apart-ahead, ahead-x.Apart) > x.Skew+drifted {
					t.Errorf("clocks are %v apart, and %v ± %v are reported", ahead, x.Apart, x.Skew)
				}
				gaps, skews, lates = append(gaps, gap), append(skews, x.Skew), append(lates, x.Late)
			}
			for _, x := range [][]time.Duration{gaps, skews, lates, untold} {
				slices.Sort(x)
			}
			const half = trials / 2
			t.Logf("medians: windows %v apart, at most %v reported, threads %v late", gaps[half], skews[half], lates[half])
			// The test reads the clock a little after the thread's end of the turn does.
			if u := untold[half]; u < -time.Microsecond || u > time.Millisecond {
				t.Errorf("threads began %v later than reported", u)
			}
			if gaps[half] < c.least || gaps[half] > c.most || skews[half] > c.known {
				t.Errorf("want between %v and %v, known as exactly as %v", c.least, c.most, c.known)
			}
		})
	}
}

// Nothing is on its way while a trial runs, in either direction, of any worker: neither when it is sent nor when it
// arrives. Others are told before each trial, for how long.
func TestQuiet(t *testing.T) {
	const trials, warm, length = 10, 50 * time.Millisecond, 100 * time.Millisecond
	for _, on := range []time.Duration{0, 4 * time.Millisecond} {
		t.Run(fmt.Sprint("delay ", on), func(t *testing.T) {
			t.Parallel()
			turns, peers := meet(t, 2, same(constant(on)), same(constant(on)))
			reports := make(chan seen, 2*trials)
			for i, p := range peers {
				var instead func(traffic.Window)
				if i == 0 { // its threads leave at once, and its answer waits for the other's
					instead = func(traffic.Window) {}
				}
				go drive(p, i, instead, reports)
			}
			set(t, turns, 2, warm, length)
			var hushes [][2]int64
			turns.Hush(func(quiet time.Duration) {
				now := clock.Now()
				hushes = append(hushes, [2]int64{now, now + int64(quiet)})
			})
			timings, err := turns.Run(t.Context(), make([]int, trials), one)
			if err != nil {
				t.Fatal(err)
			}
			if len(hushes) != trials {
				t.Fatalf("others were told %d times, want %d", len(hushes), trials)
			}
			frames := append(peers[0].journeys(), peers[1].journeys()...)
			if want := 2 * (2*exchanges + 4*trials + 2); len(frames) != want { // two calls a trial, and their answers
				t.Errorf("%d frames, want %d", len(frames), want)
			}
			for i, x := range timings {
				if !x.Done {
					t.Errorf("%+v", x)
				}
				if h := hushes[i]; h[0] > x.Opened+int64(x.Late) || h[1] < x.Opened+int64(length+traffic.DrainLimit) {
					t.Errorf("others were told to be quiet from %v to %v after an opening", time.Duration(h[0]-x.Opened),
						time.Duration(h[1]-x.Opened))
				}
				// An order that comes late makes its threads late, which the turn says.
				from, to := x.Opened+int64(x.Late+x.Skew), x.Opened+int64(length)
				for _, f := range frames {
					if f.sent < to && f.arrived > from {
						t.Errorf("a frame was on its way %v to %v after an opening", time.Duration(f.sent-x.Opened),
							time.Duration(f.arrived-x.Opened))
					}
				}
			}
		})
	}
}

// A worker whose stream ends in a trial ends the block at once, by its number, and its replacement joins.
func TestLost(t *testing.T) {
	turns, peers := meet(t, 2, same(nil), same(nil))
	set(t, turns, 2, 0, time.Hour)
	opened, end, reports := make(chan struct{}, 2), make(chan struct{}), make(chan seen, 2)
	for i, p := range peers {
		go drive(p, i, func(traffic.Window) { opened <- struct{}{}; <-end }, reports)
	}
	var cut atomic.Int64
	go func() {
		<-opened
		<-opened
		cut.Store(clock.Now())
		peers[1].cut()
	}()
	timings, err := turns.Run(t.Context(), []int{0, 0}, one)
	after := time.Duration(clock.Now() - cut.Load())
	if e, ok := errors.AsType[*traffic.LostError](err); !ok || e.Worker != 1 || timings[0].Done || timings[1].Opened != 0 {
		t.Fatalf("error %v, timings %+v, want that worker 1 is lost", err, timings)
	}
	if after > gateLimit/2 {
		t.Errorf("the block ended %v later", after)
	}
	close(end)
	<-reports
	<-reports
	replaced := connect(t, nil, nil)
	turns.Join(1, replaced.client.Call)
	go drive(replaced, 1, nil, nil)
	set(t, turns, 2, 50*time.Millisecond, 60*time.Millisecond)
	if timings, err := turns.Run(t.Context(), []int{0}, one); err != nil || !timings[0].Done {
		t.Errorf("after it was replaced: %v, %+v", err, timings)
	}
}

// A worker that does not even say what time it is has all of its threads missing.
func TestSilent(t *testing.T) {
	turns, peers := meet(t, 2, same(nil), same(nil))
	set(t, turns, 2, 0, 10*time.Millisecond)
	peers[1].there.delay = constant(time.Hour)
	_, err := turns.Run(t.Context(), []int{0}, func(int) int { return 2 })
	got, ok := errors.AsType[*traffic.StalledError](err)
	if !ok {
		t.Fatalf("error %v, want that worker 1 stalls", err)
	}
	want := traffic.StalledError{Missing: []traffic.Seat{{Worker: 1, Pair: 0}, {Worker: 1, Pair: 1}}}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := turns.SetCell(1, traffic.CellPlan{Workers: []int{7}, Threads: []int{1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := turns.Run(t.Context(), []int{1}, one); err == nil || !strings.Contains(err.Error(), "worker 7") {
		t.Errorf("a worker that never joined: %v", err)
	}
}

// A block that is interrupted in a trial that ends soon finishes that trial, and sends nothing into it.
func TestFinishes(t *testing.T) {
	turns, peers := meet(t, 1, same(nil), same(nil))
	const length = 200 * time.Millisecond
	set(t, turns, 1, 50*time.Millisecond, length)
	ctx, cancel := context.WithCancel(t.Context())
	go drive(peers[0], 0, func(w traffic.Window) { cancel(); time.Sleep(time.Duration(w.Close - clock.Now())) }, nil)
	timings, err := turns.Run(ctx, []int{0, 0}, one)
	if !errors.Is(err, context.Canceled) || !timings[0].Done || timings[1].Opened != 0 {
		t.Errorf("%v, %+v", err, timings)
	}
	for _, f := range peers[0].journeys() {
		if f.arrived > timings[0].Opened && f.sent < timings[0].Opened+int64(length) {
			t.Errorf("a frame was sent %v after the opening", time.Duration(f.sent-timings[0].Opened))
		}
	}
}

// Trials whose windows did not overlap as they must do not count, and those after them do.
func TestRefused(t *testing.T) {
	const warm, length = 50 * time.Millisecond, 150 * time.Millisecond
	for _, c := range []struct {
		name     string
		there    time.Duration
		back     time.Duration
		plant    func(p *peer, trial int, arrives bool)
		want     []string // for each trial
		contains string
	}{
		{
			name: "an order comes late", contains: "after the opening, and the warm-up ends after 50ms",
			plant: func(p *peer, trial int, arrives bool) {
				if trial == 1 && arrives {
					p.there.delay = constant(100 * time.Millisecond)
				} else {
					p.there.delay = constant(0)
				}
			},
			want: []string{"", "late", ""},
		},
		{
			name: "a clock stands still", contains: "the clock of worker 0 changed",
			plant: func(p *peer, trial int, arrives bool) {
				if trial == 1 && !arrives { // its machine was suspended
					p.turn.now = func() int64 { return clock.Now() - int64(time.Second) }
				}
			},
			want: []string{"", "clock", ""},
		},
		{
			name: "clocks are not known", there: 40 * time.Millisecond, back: 40 * time.Millisecond,
			contains: "not known more exactly",
			plant:    func(*peer, int, bool) {},
			want:     []string{"far", "far", "far"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			turns, peers := meet(t, 2, same(constant(c.there)), same(constant(c.back)))
			set(t, turns, 2, warm, length)
			trial := 0
			go driveWith(peers[0], func(arrives bool) {
				c.plant(peers[0], trial, arrives)
				if !arrives {
					trial++
				}
			})
			go drive(peers[1], 1, nil, nil)
			timings, err := turns.Run(t.Context(), []int{0, 0, 0}, one)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range timings {
				if refused := c.want[i] != ""; x.Done == refused || strings.Contains(x.Refused, c.contains) != refused {
					t.Errorf("trial %d: %+v, want that it is refused: %t", i, x, refused)
				}
			}
		})
	}
}

// driveWith is drive for the thread of worker 0, which calls plant before it arrives and before it leaves.
func driveWith(p *peer, plant func(arrives bool)) {
	for last := uint32(0); ; {
		ticket, err := p.turn.Await(0, last)
		if err != nil {
			panic(err)
		}
		last = ticket
		plant(true)
		w, err := p.turn.Arrive(ticket, traffic.Seat{})
		if err != nil {
			continue
		}
		time.Sleep(time.Duration(w.Close - p.turn.now()))
		plant(false)
		p.turn.Leave(ticket, traffic.Seat{})
	}
}

// The meters of all workers are read when a trial opens and when its last thread leaves.
func TestMeters(t *testing.T) {
	turns, peers := meet(t, 2, same(nil), same(nil))
	set(t, turns, 2, 50*time.Millisecond, 60*time.Millisecond)
	var softirqd, probe atomic.Int64
	softirqd.Store(1000)
	probe.Store(50)
	for i, p := range peers {
		var m traffic.Meters
		if i == 0 {
			m = traffic.Meters{Softirqd: softirqd.Load, Probe: probe.Load}
		} else {
			m = traffic.Meters{Softirqd: func() int64 { return 2 * softirqd.Load() }}
		}
		if _, err := p.turn.Open(m); err != nil {
			t.Fatal(err)
		}
	}
	var both sync.WaitGroup
	both.Add(2)
	for i, p := range peers {
		go drive(p, i, func(w traffic.Window) {
			both.Done()
			both.Wait()
			if i == 0 {
				softirqd.Add(7)
				probe.Add(3)
			}
			time.Sleep(time.Duration(w.Close - clock.Now()))
		}, nil)
	}
	timings, err := turns.Run(t.Context(), []int{0}, one)
	if err != nil || !timings[0].Done || timings[0].Softirqd != 21 || timings[0].Probe != 3 {
		t.Errorf("%v, %+v, want 21 and 3", err, timings)
	}
}

// Threads allocate nothing between a trial's start and its end, though they sleep until it opens.
func TestAllocates(t *testing.T) {
	const runs = 100
	turn := NewTurn()
	trials := make([]*trial, runs+1) // AllocsPerRun runs once more
	for i := range trials {
		trials[i] = &trial{
			ticket: uint32(i), threads: 1, seats: make([]seat, 1), gate: gateOpen, all: make(chan struct{}, 1),
			none: make(chan struct{}, 1),
		}
	}
	i := uint32(0)
	if n := testing.AllocsPerRun(runs, func() {
		turn.trial.Store(trials[i])
		trials[i].window.Open = clock.Now() + int64(50*time.Microsecond)
		if _, err := turn.Arrive(i, traffic.Seat{}); err != nil {
			t.Error(err)
		}
		turn.Leave(i, traffic.Seat{})
		i++
	}); n != 0 {
		t.Errorf("%v allocations a trial, want none", n)
	}
}
