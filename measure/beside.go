package measure

import "math"

// beside compares the members of mixes with the same pairs alone: same stack, same lab, same blocks. Baselines are
// compared too, twins are not. In each metric, all comparisons are one family for Holm's procedure.
//
// The floor of each comparison joins the floors of both groups, that of the mix and that of the member alone, as
// [Combiner] does for a ratio of two groups: √((f₁²+f₂²)/2). CPU time is left out: in a mix the kernel charges the work
// of one member to the threads of another.
//
// The value of a cell measured alone is its value in the mix over the ratio of the two. So a value never contradicts
// the change next to it.
func (a *analyzer) beside() {
	type place struct {
		cell   *Cell
		metric string
	}
	rows := map[place]*Row{}
	for i := range a.out.Rows {
		r := &a.out.Rows[i]
		rows[place{r.Cell, r.Metric}] = r
	}
	for i := range a.cells {
		alone := &a.run.Cells[i]
		mixed, ok := a.byID[alone.Alone]
		if alone.Alone == "" || alone.Twin || !ok {
			continue
		}
		cell := &a.run.Cells[mixed]
		for _, m := range a.metricsOf(mixed) {
			in, by := rows[place{cell, m.Name}], rows[place{alone, m.Name}]
			if in == nil || by == nil || in.Verdict.Failed() || by.Verdict.Failed() || !m.Compares() ||
				m.Kind == KindCPU {
				continue
			}
			d := a.against(mixed, i, m)
			if d.Floor = math.Hypot(a.floor(cell.Group, m.Name), a.floor(alone.Group, m.Name)) / math.Sqrt2; !finite(d.Floor) {
				d.Floor = math.NaN()
			}
			a.out.Beside = append(a.out.Beside, d)
			switch {
			case d.HasRatio && by.Value > 0 && d.Estimate.Ratio > 0:
				by.scale(in.Value / d.Estimate.Ratio / by.Value)
			case d.HasDifference:
				by.shift(in.Value - d.Difference.Points - by.Value)
			}
		}
	}
	for i := range a.out.Rows { // the twins of cells measured alone
		r := &a.out.Rows[i]
		base, ok := a.byID[r.Cell.Baseline]
		if r.Cell.Alone == "" || !r.Cell.Twin || !ok {
			continue
		}
		one := rows[place{&a.run.Cells[base], r.Metric}]
		switch {
		case one == nil:
		case r.HasRatio && r.Value > 0:
			r.scale(one.Value * math.Sqrt(r.Estimate.Ratio) / r.Value) // one.Value is the mean of baseline and twin
		case r.HasDifference:
			r.shift(one.Value + r.Difference.Points/2 - r.Value)
		}
	}
	judgeDirect(a.out.Beside, a.run.Design)
}

// scale multiplies the value of a row and its interval. A factor that is not finite changes nothing.
func (r *Row) scale(by float64) {
	if finite(by) {
		r.Value, r.ValueLo, r.ValueHi = r.Value*by, r.ValueLo*by, r.ValueHi*by
	}
}

// shift adds to the value of a row and its interval; neither falls below 0. A term that is not finite changes nothing.
func (r *Row) shift(by float64) {
	if finite(by) {
		r.Value, r.ValueLo, r.ValueHi = max(r.Value+by, 0), max(r.ValueLo+by, 0), r.ValueHi+by
	}
}
