package control

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// choose sets the number of blocks of the next generations after a look, and says it in a line with the figures behind
// it. Costs are those of the last few generations: labs that are no longer measured cost nothing any more. Cells that
// have left at this look were still in those; left is the share of a block that is to be measured without them.
func (s *scheduler) choose(plan *measure.LookPlan, now measure.Analysis, left float64) {
	gens := s.records.log.Generations
	overhead, block := measure.Costs(gens[max(0, len(gens)-plan.PerLook):])
	block *= left
	ratio, cells := now.VarianceRatio(func(id string) bool {
		i := slices.IndexFunc(s.cells, func(c experiment.Cell) bool { return c.ID == id })
		return i >= 0 && s.gone[i] == ""
	})
	plan.Choose(measure.BestBlocks(overhead/block, ratio))
	if s.done() {
		return
	}
	why := "their costs or variances are not known"
	if !math.IsNaN(overhead) && cells > 0 {
		why = fmt.Sprintf("a generation takes %.2g s besides its blocks, a block %.2g s; the standard deviation between "+
			"generations is %.2g times that of blocks (median of %s)", overhead, block, math.Sqrt(max(0, ratio)),
			count(cells, "cell"))
	}
	s.say("  the next generations have %s each: %s", count(plan.Blocks, "block"), why)
}

// blockTime is how long a block of what is still measured takes by the plan, without turns.
func (s *scheduler) blockTime() (sum time.Duration) {
	for _, v := range s.visiting() {
		c := s.cells[s.workload.visits[v].Cells[0]]
		sum += c.Warm + c.Trial
	}
	return sum
}
