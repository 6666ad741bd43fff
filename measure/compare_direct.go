package measure

import (
	"math"
	"slices"
)

// DirectChange is the change, between two runs, of the ratio of one stack to another.
type DirectChange struct {
	Over     *Cell
	Old, New *Direct
	Row      // for the cell of the new run; Value is NaN
}

// CompareDirect compares the direct comparisons of two runs, for each pair of stacks that both lists have, in the order
// of the new list. It does what [Compare] does, with another stack in place of the baseline. In each metric, all pairs
// are one family for Holm's procedure.
func CompareDirect(older, newer []Direct, margin float64) []DirectChange {
	var list []DirectChange
	nan := math.NaN()
	for i := range newer {
		y := &newer[i]
		at := slices.IndexFunc(older, func(x Direct) bool {
			return x.Cell.ID == y.Cell.ID && x.Over.ID == y.Over.ID && x.Metric == y.Metric
		})
		if at < 0 {
			continue
		}
		x := &older[at]
		c := DirectChange{Over: y.Over, Old: x, New: y, Row: Row{
			Cell: y.Cell, Metric: y.Metric, Unit: y.Unit, About: y.About, Value: nan, ValueLo: nan, ValueHi: nan, AdjLo: nan,
			AdjHi: nan, Floor: math.Hypot(x.Floor, y.Floor), Moved: x.Moved + y.Moved, Verdict: NotPrecise,
			Effect: between(x.Effect, y.Effect),
			Blocks: x.Blocks + y.Blocks, Generations: x.Generations + y.Generations,
		}}
		list = append(list, c)
	}
	families := map[string][]*Row{}
	for i := range list {
		switch c := &list[i]; {
		case min(c.Old.Generations, c.New.Generations) < LeastGenerations:
			c.Verdict = TooFew
			c.adjusted(drawn)
		case c.HasRatio || c.HasDifference:
			families[c.Metric] = append(families[c.Metric], &c.Row)
		}
	}
	for _, name := range sortedKeys(families) {
		judge(families[name], margin, drawn)
	}
	return list
}
