package measure

import "iter"

// firstBlocks are those of the first look.
const firstBlocks = 20

// LeastGenerations is how many generations a verdict takes (docs/method.md, "The verdict"), and how many there are
// before the first look unless an experiment wants more.
const LeastGenerations = 5

// LookPlan says how many blocks each generation has and when looks happen: a superround is so many generations, and
// each look after the first sees twice the blocks of the look before. By default 5 generations of 4 blocks (20), 5 of 4
// (40), 5 of 8 (80), 5 of 16 (160) …
type LookPlan struct {
	PerLook int // generations between looks
	Base    int // blocks in each generation before the first look
}

// NewLookPlan returns the plan for a run with at least so many generations (0: 5) that can afford so many blocks (0:
// any number): 20 blocks before the first look where they can be afforded, else as many as can be, one in each
// generation at least.
func NewLookPlan(generations, affordable int) LookPlan {
	if generations < 2 {
		generations = LeastGenerations
	}
	first := firstBlocks
	if affordable > 0 {
		first = min(first, affordable)
	}
	return LookPlan{PerLook: generations, Base: max(1, (first+generations/2)/generations)}
}

// Blocks returns the number of blocks in generation g (from 0).
func (p LookPlan) Blocks(g int) int {
	look := g / p.PerLook
	if look <= 1 {
		return p.Base
	}
	return p.Base << min(look-1, 30)
}

// Total returns the number of blocks in the first so many generations.
func (p LookPlan) Total(generations int) int {
	n := 0
	for g := range generations {
		n += p.Blocks(g)
	}
	return n
}

// Look says whether a look happens after so many complete generations.
func (p LookPlan) Look(generations int) bool { return generations > 0 && generations%p.PerLook == 0 }

// Generations returns the numbers of blocks of generation 0, 1, 2 … without end.
func (p LookPlan) Generations() iter.Seq2[int, int] {
	return func(yield func(g, blocks int) bool) {
		for g := 0; yield(g, p.Blocks(g)); g++ {
		}
	}
}

// Precise says whether a cell's primary metric is known as precisely as asked for (a share; of a metric compared by
// difference, in its unit). Nothing is precise where nothing is asked for.
func (r Row) Precise(precision float64) bool {
	switch {
	case precision <= 0:
		return false
	case r.HasRatio:
		return r.Estimate.HalfWidth() <= precision
	case r.HasDifference:
		return r.Difference.HalfWidth() <= precision
	}
	return false
}

// Stop returns the ids of the cells that may leave after a look: those whose primary metric was precise at the look
// before and is so now. Baselines and twins stay to the end, and probed cells leave with those that they are probes of;
// a cell that left is named again as long as it was in both analyses. When every other cell has left, the run is done.
func Stop(before, now Analysis, precision float64) []string {
	was := map[string]bool{}
	for _, r := range before.Rows {
		if r.Metric == r.Cell.Primary && r.Precise(precision) {
			was[r.Cell.ID] = true
		}
	}
	var leave []string
	for _, r := range now.Rows {
		if r.Metric == r.Cell.Primary && r.Cell.Governs() && was[r.Cell.ID] && r.Precise(precision) {
			leave = append(leave, r.Cell.ID)
		}
	}
	return leave
}
