package measure

import (
	"math"
)

type groupMetric struct{ group, metric string }

// floors finds the floor of each group and metric from its twin, and gives it to the rows. If a group has several
// twins, the largest floor counts. A twin with too few generations gives none.
func (a *analyzer) floors() {
	found := map[groupMetric]GroupFloor{}
	for _, r := range a.out.Rows {
		if !r.Cell.Twin || !(r.HasRatio || r.HasDifference) || r.Generations < LeastGenerations {
			continue
		}
		f := GroupFloor{Group: r.Cell.Group, Metric: r.Metric, Twin: r.Cell.ID, Floor: Floor(r.Estimate)}
		if r.HasDifference {
			f.Floor, f.Difference = FloorOf(r.Difference), true
		}
		k := groupMetric{r.Cell.Group, r.Metric}
		if old, ok := found[k]; ok && old.Floor >= f.Floor {
			continue
		}
		found[k] = f
	}
	listed := map[groupMetric]bool{}
	for i := range a.out.Rows {
		r := &a.out.Rows[i]
		if !r.About.Differs() {
			r.Moved = a.out.Moved
		}
		k := groupMetric{r.Cell.Group, r.Metric}
		f, ok := found[k]
		if !ok || r.Verdict.Failed() {
			continue
		}
		r.Floor = f.Floor
		if !listed[k] {
			listed[k] = true
			a.out.Floors = append(a.out.Floors, f)
		}
	}
}

// adjust runs Holm's procedure over each metric and gives every row its verdict.
func (a *analyzer) adjust() {
	families := map[string][]int{}
	for i := range a.out.Rows {
		r := &a.out.Rows[i]
		switch {
		case r.Verdict.Failed():
		case r.Cell.Alone != "" && !r.Cell.Twin:
			r.Verdict = IsAlone
		case r.Cell.Baseline == "":
			r.Verdict = IsBaseline
		case r.Cell.Twin:
			r.Verdict = IsTwin
			r.adjusted(a.run.Design.Level())
		case r.Cell.Probe != "":
			r.Verdict = IsProbed
			r.adjusted(a.run.Design.Level())
		case !r.About.Compares():
			r.Verdict = NotCompared
		case r.Generations < LeastGenerations:
			r.Verdict = TooFew
			r.adjusted(a.run.Design.Level())
		case r.HasRatio || r.HasDifference:
			families[r.Metric] = append(families[r.Metric], i)
		default:
			r.Verdict = NotPrecise
		}
	}
	for _, name := range sortedKeys(families) {
		rows := make([]*Row, len(families[name]))
		for i, at := range families[name] {
			rows[i] = &a.out.Rows[at]
		}
		judge(rows, a.run.Design.Equal(), a.run.Design.Level())
	}
}

// judge runs Holm's procedure at an error rate over rows that have a ratio or a difference, and gives each its verdict.
func judge(rows []*Row, margin, alpha float64) {
	judgeEach(rows, func(int) float64 { return margin }, alpha)
}

// judgeEach does what judge does, with a margin for each row.
func judgeEach(rows []*Row, margin func(i int) float64, alpha float64) {
	p := make([]float64, len(rows))
	for i, r := range rows {
		if p[i] = r.Estimate.P; r.HasDifference {
			p[i] = r.Difference.P
		}
	}
	for i, level := range Holm(p, alpha) {
		rows[i].adjusted(level)
		rows[i].Verdict = rows[i].comparison(margin(i)).Decide(rows[i].About)
	}
}

func (r *Row) adjusted(level float64) {
	i := r.Estimate.Interval(level)
	if r.HasDifference {
		i = r.Difference.Interval(level)
	}
	if r.HasRatio || r.HasDifference {
		r.AdjLo, r.AdjHi = i.Lo, i.Hi
	}
}

// comparison returns the row on the additive scale of verdicts. The margin is a share, or in the metric's unit if it is
// compared by difference.
func (r *Row) comparison(margin float64) Comparison {
	if r.HasDifference {
		d := r.Difference
		return Comparison{d.Points, Interval{d.Lo, d.Hi}, Interval{r.AdjLo, r.AdjHi}, r.Floor, r.Moved, margin}
	}
	e := r.Estimate
	return Comparison{
		e.Log,
		Interval{math.Log(e.Lo), math.Log(e.Hi)},
		Interval{math.Log(r.AdjLo), math.Log(r.AdjHi)},
		r.Floor, r.Moved, math.Log1p(margin),
	}
}
