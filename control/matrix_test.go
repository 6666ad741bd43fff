package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// The time for who reaches whom is a share of the run's, and at least two seconds; it is divided over the times that
// are expected. What was spent is not spent again.
func TestAllowance(t *testing.T) {
	for _, c := range []struct {
		name        string
		budget      time.Duration // of measuring
		done        int           // generations
		measured    time.Duration // in them
		spent       time.Duration
		when        string
		generations int // at least
		want        time.Duration
	}{
		{"a short run", 10 * time.Second, 0, 0, 0, beforeBlocks, 5, 200 * time.Millisecond},
		{"a long one", 200 * time.Second, 0, 0, 0, beforeBlocks, 5, time.Second},
		{"after the blocks", 200 * time.Second, 0, 0, time.Second, afterBlocks, 5, time.Second},
		{"short generations", 100 * time.Second, 10, 20 * time.Second, time.Second, beforeBlocks, 5, 50 * time.Millisecond},
		{"nothing is left", 100 * time.Second, 10, 20 * time.Second, time.Minute, beforeBlocks, 5, 0},
		{"longer than expected", 10 * time.Second, 7, 14 * time.Second, 0, beforeBlocks, 5, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scheduler{
				experiment: experiment.Experiment{
					Design: experiment.Design{Generations: c.generations}, Proof: experiment.Proof{Budget: 0.05},
				},
				budget: c.budget, measured: c.measured, reached: c.spent,
				records: &aggregator{log: measure.Log{Generations: make([]measure.Generation, c.done)}},
			}
			if diff := cmp.Diff(c.want, s.allowance(c.when)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// All matrices that are tried at the same time leave room in the table of neighbours. If hosts cannot be entered, few
// labs share a network.
func TestReachersIn(t *testing.T) {
	for _, c := range []struct {
		stands deploy.Lab
		want   map[int]int // by pairs
	}{
		{struct{ deploy.Enterable }{}, map[int]int{1: 8, 2: 8, 4: 8, 5: 5, 8: 2, 10: 1, 100: 1}},
		{struct{ deploy.Lab }{}, map[int]int{1: 4, 8: 2, 10: 1}},
	} {
		for pairs, want := range c.want {
			labs := []*lab{
				{Lab: experiment.Lab{Pairs: 1}, stands: c.stands}, {Lab: experiment.Lab{Pairs: pairs}, stands: c.stands},
			}
			if got := reachersIn(labs); got != want {
				t.Errorf("%T with %d pairs: in %d labs at the same time, want %d", c.stands, pairs, got, want)
			}
		}
	}
}
