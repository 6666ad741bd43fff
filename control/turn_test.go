package control

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/turntest"
	"github.com/nettoll/nettoll/workload"
)

// mute is a worker that lives and has nothing to say.
type mute struct{ done chan struct{} }

func (mute) Call(context.Context, string, any, any) error {
	return errors.New("nobody asks a mute worker")
}
func (m mute) Done() <-chan struct{} { return m.done }
func (mute) Err() error              { return nil }
func (mute) Kill() error             { return nil }

// loses is a turn that cannot ask worker 1 any more.
type loses struct{ traffic.Turns }

func (l loses) Run(ctx context.Context, order []int, threads func(int) int) ([]traffic.Timing, error) {
	timings, err := l.Turns.Run(ctx, order, threads)
	if err != nil {
		err = &traffic.LostError{Worker: 1, Err: errors.New("the cable was cut")}
	}
	return timings, err
}

// Control blames the worker that holds a trial up, or that died meanwhile, whatever passes the turn.
func TestFaultsOfATurn(t *testing.T) {
	for _, c := range []struct {
		name string
		dies bool
		turn func(traffic.Turns) traffic.Turns
		want string
	}{
		{"a worker does not come", false, nil, "worker sink@host1 of lab l did not start its trial of x"},
		{"a worker dies", true, nil, "worker sink@host1 of lab l died: it ended unexpectedly"},
		{
			"a worker is lost", false, func(t traffic.Turns) traffic.Turns { return loses{t} },
			"worker sink@host1 of lab l does not take its turn: the cable was cut",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn := &turntest.Fake{Gate: 200 * time.Millisecond}
			l := &lab{Lab: experiment.Lab{ID: "l"}}
			g := &generation{labs: []*lab{l}, turns: turn, seats: []int{1, 1}}
			l.generation = g
			if c.turn != nil {
				g.turns = c.turn(turn)
			}
			gone := make(chan struct{})
			l.workers = []*labWorker{
				{Worker: mute{make(chan struct{})}, lab: l, side: workload.Source, host: 1, number: 0},
				{Worker: mute{gone}, lab: l, side: workload.Sink, host: 1, number: 1},
			}
			if err := turn.SetCell(0, traffic.CellPlan{Workers: []int{0, 1}, Threads: []int{1, 1}}); err != nil {
				t.Fatal(err)
			}
			left := make(chan error, 1)
			go func() { // the source's thread
				ticket, err := turn.Await(0, 0)
				if err == nil && c.dies {
					close(gone)
				}
				if err == nil {
					_, err = turn.Arrive(ticket, traffic.Seat{Worker: 0})
				}
				left <- err
			}()
			w := &workloadControl{
				cells:  []experiment.Cell{{Cell: measure.Cell{ID: "x"}}},
				visits: []experiment.Visit{{ID: "x", Cells: []int{0}}},
			}
			trials, err := w.run(t.Context(), g, []int{0})
			var f *fault
			if !errors.As(err, &f) || f.reason != c.want || f.visit != 0 || len(f.workers) != 1 ||
				f.workers[0] != l.workers[1] || len(trials) > 0 {
				t.Errorf("%d trials, fault %+v, error %v, want %q", len(trials), f, err, c.want)
			}
			if err := <-left; !errors.Is(err, traffic.ErrGate) {
				t.Errorf("the thread that came: %v, want %v", err, traffic.ErrGate)
			}
		})
	}
}

// A trial that the turn refuses is recorded as failed, with the reason, and nobody is asked for samples of it.
func TestRefusedTrial(t *testing.T) {
	l := &lab{Lab: experiment.Lab{ID: "l"}}
	g := &generation{labs: []*lab{l}}
	l.generation = g
	l.workers = []*labWorker{{Worker: mute{make(chan struct{})}, lab: l, side: workload.Source, host: 1}}
	c := &workloadControl{
		cells:  []experiment.Cell{{Cell: measure.Cell{ID: "x"}, Trial: 100, Warm: 10}},
		visits: []experiment.Visit{{ID: "x", Cells: []int{0}}},
	}
	timings := []traffic.Timing{{Refused: "windows were apart", Opened: 5e9, Dead: time.Millisecond}}
	trials, err := c.collect(t.Context(), g, timings, nil)
	if err != nil || len(trials) != 1 {
		t.Fatalf("%v, %+v, want one trial", err, trials)
	}
	r := trials[0].record(c.cells[0], 1, 2, 3e9)
	if r.Failed != "windows were apart" || r.Start != 2 || r.Duration != 90e-9 {
		t.Errorf("its record is %+v", r)
	}
	timings = append(timings, traffic.Timing{Cell: 0})
	if visit := c.ended(g, timings[:1], l); visit != -1 {
		t.Errorf("a refused trial ended the block: visit %d", visit)
	}
	if visit := c.ended(g, timings, l); visit != 0 {
		t.Errorf("the trial after it ended the block, and not visit %d", visit)
	}
}
