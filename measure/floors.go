package measure

import (
	"math"
)

type groupMetric struct{ group, metric string }

// floors finds the floor of each group and metric from its twin and gives it to the rows. Of several twins the largest
// counts. A twin with too few generations gives none.
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
		k := groupMetric{r.Cell.Group, r.Metric}
		f, ok := found[k]
		if !ok || r.Verdict == HasFailed {
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
		case r.Verdict == HasFailed:
		case r.Cell.Baseline == "":
			r.Verdict = IsBaseline
		case r.Cell.Twin:
			r.Verdict = IsTwin
			r.adjusted(drawn)
		case r.Cell.Probe != "":
			r.Verdict = IsProbed
			r.adjusted(drawn)
		case r.Generations < LeastGenerations:
			r.Verdict = TooFew
			r.adjusted(drawn)
		case r.HasRatio || r.HasDifference:
			families[r.Metric] = append(families[r.Metric], i)
		default:
			r.Verdict = NotPrecise
		}
	}
	for _, name := range sortedKeys(families) {
		members := families[name]
		m, _ := a.known.Lookup(name)
		p := make([]float64, len(members))
		for j, i := range members {
			if p[j] = a.out.Rows[i].Estimate.P; a.out.Rows[i].HasDifference {
				p[j] = a.out.Rows[i].Difference.P
			}
		}
		for j, level := range Holm(p, drawn) {
			r := &a.out.Rows[members[j]]
			r.adjusted(level)
			r.Verdict = r.comparison(a.run.Design.Precision).Decide(m)
		}
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

// comparison puts the row on the additive scale on which verdicts are made.
func (r *Row) comparison(precision float64) Comparison {
	if r.HasDifference {
		d := r.Difference
		return Comparison{d.Points, Interval{d.Lo, d.Hi}, Interval{r.AdjLo, r.AdjHi}, r.Floor, precision}
	}
	e := r.Estimate
	return Comparison{
		e.Log,
		Interval{math.Log(e.Lo), math.Log(e.Hi)},
		Interval{math.Log(r.AdjLo), math.Log(r.AdjHi)},
		r.Floor, math.Log1p(max(precision, 0)),
	}
}
