package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Goals returns what a run of the suite is to answer, as it is known at a look (from 1): each part of each claim that
// has an estimate and, for the cells that no such part needs, their verdicts. If a claim does not hold because of one
// part, all of its parts are decided.
func (s *Suite) Goals(run measure.Run, log *measure.Log, now measure.Analysis, look int) []measure.Goal {
	r := s.evaluate(run, log, now, measure.LookLevel(look))
	var goals []measure.Goal
	claimed := map[string]bool{}
	for n, c := range r.Claims {
		for i, p := range c.measurements() {
			if p.Missing != "" {
				continue
			}
			half := p.Here.ToPrecise(run.Design.Precision)
			goals = append(goals, measure.Goal{
				Name:    fmt.Sprintf("claim %d, part %d (%s)", n+1, i+1, strings.TrimSuffix(p.Of+", "+p.At, ", ")),
				Cells:   p.cells,
				Decided: p.Answer.Finding != measure.CannotTell || c.Here.Finding == measure.DoesNotHold, ToDecide: p.Answer.Longer,
				Precise: half == 1, ToPrecise: half,
			})
			for _, id := range p.cells {
				claimed[id] = true
			}
		}
	}
	return append(goals, slices.DeleteFunc(now.Goals(look), func(g measure.Goal) bool { return claimed[g.Name] })...)
}
