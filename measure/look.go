package measure

import "iter"

// firstBlocks is the number of blocks before the first look.
const firstBlocks = 20

// LeastGenerations is the least number of generations for a verdict (docs/method.md, "The verdict"). It is also the
// number before the first look, unless an experiment asks for more.
const LeastGenerations = 5

// LookPlan says how many blocks each generation has and when looks happen. Looks are PerLook generations apart, and
// each look after the first sees twice the blocks of the look before. By default there are 5 generations of 4 blocks
// (20), 5 of 4 (40), 5 of 8 (80), 5 of 16 (160) …
type LookPlan struct {
	PerLook int // generations between looks
	Base    int // blocks in each generation before the first look
}

// NewLookPlan returns the plan for a run with at least this number of generations (0: 5) that has time for affordable
// blocks (0: any number). The plan has 20 blocks before the first look, or as many as there is time for, and at least
// one in each generation.
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

// Blocks returns the number of blocks in generation g, counted from 0.
func (p LookPlan) Blocks(g int) int {
	look := g / p.PerLook
	if look <= 1 {
		return p.Base
	}
	return p.Base << min(look-1, 30)
}

// Total returns the number of blocks in the first generations, as many as given.
func (p LookPlan) Total(generations int) int {
	n := 0
	for g := range generations {
		n += p.Blocks(g)
	}
	return n
}

// Look reports whether a look happens after this number of complete generations.
func (p LookPlan) Look(generations int) bool { return generations > 0 && generations%p.PerLook == 0 }

// Generations yields each generation g, from 0 and without end, with its number of blocks.
func (p LookPlan) Generations() iter.Seq2[int, int] {
	return func(yield func(g, blocks int) bool) {
		for g := 0; yield(g, p.Blocks(g)); g++ {
		}
	}
}

// Precise reports whether the half-width of the row's interval is at most precision: a share or, in a metric compared
// by difference, its unit. It is false if precision is 0.
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
// before and is precise now. Baselines and twins stay to the end, and probed cells leave with the cells that they
// probe. A cell that left is returned again as long as both analyses have it. The run is done when every other cell has
// left.
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
