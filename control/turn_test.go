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

// Control blames the worker that holds a trial up, or that died meanwhile, whatever passes the turn.
func TestFaultsOfATurn(t *testing.T) {
	for _, c := range []struct {
		name string
		dies bool
		want string
	}{
		{"a worker does not come", false, "worker sink@host1 of lab l did not start its trial of x"},
		{"a worker dies", true, "worker sink@host1 of lab l died: it ended unexpectedly"},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn := &turntest.Fake{Gate: 200 * time.Millisecond}
			l := &lab{Lab: experiment.Lab{ID: "l"}}
			g := &generation{labs: []*lab{l}, turns: turn, seats: []int{1, 1}}
			l.generation = g
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
