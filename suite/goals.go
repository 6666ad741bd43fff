package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Goals returns what a run of the suite is to answer, as it is known at a look (from 1): each part of each claim that
// the run has the cells for and, for the cells that no claim needs, their verdicts. A part is decided if its claim does
// not hold because of another part, too. precision is the half-width at which an interval is precise, a share.
func (s *Suite) Goals(run measure.Run, log *measure.Log, now measure.Analysis, look int,
	precision float64,
) []measure.Goal {
	r := s.evaluate(run, log, now, func(list []measure.Question) []measure.Answer {
		return measure.JudgeAt(list, measure.LookLevel(look))
	})
	var goals []measure.Goal
	claimed := map[string]bool{}
	for n, c := range r.Claims {
		for i, p := range c.measurements() {
			if p.untried {
				continue
			}
			about := strings.TrimSuffix(p.Of+", "+p.At, ", ")
			goals = append(goals, measure.Goal{
				Name: fmt.Sprintf("claim %d, part %d (%s)", n+1, i+1, about), Cells: p.cells,
				Decided:  p.Answer.Finding != measure.CannotTell || c.Here.Finding == measure.DoesNotHold,
				ToDecide: p.Answer.Longer,
				Precise:  p.Here.ToPrecise(precision) == 1, ToPrecise: p.Here.ToPrecise(precision),
			})
			for _, id := range p.cells {
				claimed[id] = true
			}
		}
	}
	return append(goals, slices.DeleteFunc(now.Goals(look, precision), func(g measure.Goal) bool {
		return claimed[g.Name]
	})...)
}
