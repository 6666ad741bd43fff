package measure

import (
	"math"
	"slices"
)

// Direct compares a cell with another one, in the same blocks: a stack with another one of its group, or a member of a
// mix with the same pairs alone.
type Direct struct {
	Over *Cell // what Row.Cell is compared with
	Row        // Value is NaN
}

// Direct compares the pairs of cells that pick chooses, in the primary metric of cell. Both are of one group, and
// neither is a twin, probed or measured alone. cell comes after over in the run. The floor is that of their group. In
// each metric, all chosen pairs are one family for Holm's procedure.
func (a *Analysis) Direct(pick func(cell, over *Cell) bool) []Direct {
	var list []Direct
	if a.from == nil {
		return nil
	}
	cells := a.from.run.Cells
	for i := range cells {
		for j := range i {
			cell, over := &cells[i], &cells[j]
			if cell.Group != over.Group || cell.Twin || over.Twin || cell.Probe != "" || over.Probe != "" ||
				cell.Alone != "" || over.Alone != "" || a.from.leaky(cell)+a.from.leaky(over) != "" || !pick(cell, over) {
				continue
			}
			list = append(list, a.from.direct(i, j))
		}
	}
	judgeDirect(list, a.from.run.Design)
	return list
}

// judgeDirect gives each comparison its verdict. Those in one metric are one family for Holm's procedure.
func judgeDirect(list []Direct, d Design) {
	families := map[string][]int{}
	for i := range list {
		if r := &list[i].Row; r.Generations < LeastGenerations {
			r.Verdict = TooFew
			r.adjusted(d.Level())
		} else if r.HasRatio || r.HasDifference {
			families[r.Metric] = append(families[r.Metric], i)
		}
	}
	for _, name := range sortedKeys(families) {
		rows := make([]*Row, len(families[name]))
		for i, at := range families[name] {
			rows[i] = &list[at].Row
		}
		judge(rows, d.Equal(), d.Level())
	}
}

// direct compares two cells of one group.
func (a *analyzer) direct(cell, over int) Direct {
	m, _ := a.known.Lookup(a.run.Cells[cell].Primary)
	d := a.against(cell, over, m)
	d.Floor = a.floor(d.Cell.Group, m.Name)
	return d
}

// floor returns the floor of a group in a metric; NaN if unknown.
func (a *analyzer) floor(group, metric string) float64 {
	i := slices.IndexFunc(a.out.Floors, func(f GroupFloor) bool { return f.Group == group && f.Metric == metric })
	if i < 0 {
		return math.NaN()
	}
	return a.out.Floors[i].Floor
}

// against compares two cells in a metric. The result has no floor.
func (a *analyzer) against(cell, over int, m Metric) Direct {
	nan := math.NaN()
	d := Direct{Over: &a.run.Cells[over], Row: Row{
		Cell: &a.run.Cells[cell], Metric: m.Name, Unit: m.Unit, About: m, Value: nan, ValueLo: nan, ValueHi: nan, AdjLo: nan,
		AdjHi: nan, Floor: nan, Verdict: NotPrecise,
	}}
	if !m.Differs() {
		d.Moved = a.out.Moved
	}
	_, ratios := a.cells[cell].compare(&a.cells[over], m)
	a.estimate(&d.Row, withoutCut(ratios), m)
	return d
}

// Turned returns the same comparison with the two cells exchanged.
func (d Direct) Turned() Direct {
	d.Cell, d.Over = d.Over, d.Cell
	if d.HasRatio {
		e := &d.Estimate
		e.Log, e.Ratio, e.Lo, e.Hi = -e.Log, 1/e.Ratio, 1/e.Hi, 1/e.Lo
		d.AdjLo, d.AdjHi = 1/d.AdjHi, 1/d.AdjLo
	}
	if d.HasDifference {
		x := &d.Difference
		x.Points, x.Lo, x.Hi = -x.Points, -x.Hi, -x.Lo
		d.AdjLo, d.AdjHi = -d.AdjHi, -d.AdjLo
	}
	switch d.Verdict {
	case Faster:
		d.Verdict = Slower
	case Slower:
		d.Verdict = Faster
	case Higher:
		d.Verdict = Lower
	case Lower:
		d.Verdict = Higher
	}
	return d
}

// Longer returns how many times as many generations would decide a row, if its estimate and the noise stayed as they
// are. It is 1 if the row is decided, +Inf if no number would decide it, and NaN if there is no estimate. Intervals and
// floors shrink with the square root of that number; what other programs move does not.
func (r *Row) Longer(margin float64) float64 {
	if r.Verdict != NotPrecise && r.Verdict != TooNoisy {
		return 1
	}
	c := r.comparison(margin)
	if !r.HasRatio && !r.HasDifference || !finite(c.Point) || !finite(c.Floor) || !finite(c.Adjusted.Hi-c.Adjusted.Lo) ||
		!finite(c.Interval.Hi-c.Interval.Lo) {
		return math.NaN()
	}
	times := func(now, wanted float64) float64 {
		if wanted <= 0 {
			return math.Inf(1)
		}
		return max(1, now*now/(wanted*wanted))
	}
	away, half := math.Abs(c.Point), (c.Interval.Hi-c.Interval.Lo)/2
	differs := max(times((c.Adjusted.Hi-c.Adjusted.Lo)/2, away), times(c.Floor, away))
	equal := max(times(half, c.Margin-away), times(c.Floor, c.Margin))
	if away <= c.Moved {
		differs = math.Inf(1)
	}
	if c.Moved >= c.Margin {
		equal = math.Inf(1)
	}
	return max(min(differs, equal), math.Nextafter(1, 2))
}
