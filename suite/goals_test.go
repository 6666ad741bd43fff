package suite

import (
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// In a world as in the paper each part of a claim is decided, and so is each cell that no claim needs. With noise some
// stay open. Every cell that governs is needed by a goal.
func TestGoals(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	open := map[float64]int{}
	for _, spread := range []float64{0.0005, 0.3} {
		log := world(run, 10, 3, spread, s.as(&run))
		var names []string
		needed := map[string]bool{}
		for _, g := range s.Goals(run, log, measure.Analyze(run, log), 2) {
			if slices.Contains(names, g.Name) || len(g.Cells) == 0 {
				t.Errorf("two goals have a name, or one needs no cell: %+v", g)
			}
			names = append(names, g.Name)
			for _, id := range g.Cells {
				needed[id] = true
			}
			if !g.Decided {
				open[spread]++
			}
		}
		for _, c := range run.Cells {
			if c.Governs() && !needed[c.ID] {
				t.Errorf("no goal needs %s", c.ID)
			}
		}
	}
	if open[0.0005] > 0 || open[0.3] == 0 {
		t.Errorf("open goals by noise: %v", open)
	}
}

// A claim that does not hold because of one part needs no other.
func TestGoalsOfAClaimThatFails(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	equal := func(*measure.Cell) (rate, latency float64) { return 2e4, 5e-5 }
	log, noisy := world(run, 10, 3, 0.005, equal), world(run, 10, 3, 1, equal)
	for i, trial := range log.Trials {
		if strings.Contains(trial.Cell, "/10/") {
			log.Trials[i] = noisy.Trials[i]
		}
	}
	analysis := measure.Analyze(run, log)
	judged := s.evaluate(run, log, analysis, measure.LookLevel(1))
	goals := s.Goals(run, log, analysis, 1)
	undecided := 0 // parts of claims that fail, and that are not decided themselves
	for _, c := range judged.Claims {
		for _, p := range c.measurements() {
			g := goals[0]
			goals = goals[1:]
			if want := c.Here.Finding == measure.DoesNotHold || p.Answer.Finding != measure.CannotTell; g.Decided != want {
				t.Errorf("%s: decided %t, want %t", g.Name, g.Decided, want)
			}
			if c.Here.Finding == measure.DoesNotHold && p.Answer.Finding == measure.CannotTell {
				undecided++
			}
		}
	}
	if undecided == 0 {
		t.Error("no claim fails while a part of it is open: this shows nothing")
	}
}
