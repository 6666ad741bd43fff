package measure

import (
	"math"
	"testing"
)

// The direct ratio of two stacks is the quotient of their ratios to the baseline. The other way round it is the
// inverse.
func TestDirect(t *testing.T) {
	run, log := play(t, 10, 8)
	a := Analyze(run, log)
	list := a.Direct(func(cell, over *Cell) bool { return cell.Baseline != "" && over.Baseline != "" })
	if len(list) != 3 {
		t.Fatalf("%d pairs of 3 stacks", len(list))
	}
	d := list[0]
	if d.Cell.ID != "equal" || d.Over.ID != "fast" || d.Verdict != Slower {
		t.Fatalf("%s : %s is %s", d.Cell.ID, d.Over.ID, d.Verdict)
	}
	want := row(t, a, "equal", "goodput").Estimate.Ratio / row(t, a, "fast", "goodput").Estimate.Ratio
	if x := d.Estimate.Ratio; math.Abs(x/want-1) > 0.01 || d.Floor != row(t, a, "fast", "goodput").Floor {
		t.Errorf("ratio %v, want about %v; floor %v", x, want, d.Floor)
	}
	r := d.Turned()
	if r.Cell.ID != "fast" || r.Verdict != Faster || r.Estimate.Ratio != 1/d.Estimate.Ratio || r.Estimate.Lo > r.Estimate.Ratio ||
		r.AdjLo > r.Estimate.Lo || r.AdjHi < r.Estimate.Hi {
		t.Errorf("turned: %+v", r.Row)
	}
	// The chosen pairs are one family: the interval of a single pair is not widened.
	one := a.Direct(func(cell, over *Cell) bool { return cell.ID == "equal" && over.ID == "fast" })
	if len(one) != 1 || one[0].AdjLo != one[0].Estimate.Lo || d.AdjLo >= d.Estimate.Lo {
		t.Errorf("alone [%v, %v], among three [%v, %v]", one[0].AdjLo, one[0].AdjHi, d.AdjLo, d.AdjHi)
	}
}

// Rows that get Longer times as much measuring are decided.
func TestLonger(t *testing.T) {
	about := described("goodput")
	made := func(point, half, floor float64, times float64) Row {
		shrink := math.Sqrt(times)
		e := Estimate{
			Log: point, Ratio: math.Exp(point), Lo: math.Exp(point - half/shrink), Hi: math.Exp(point + half/shrink),
		}
		r := Row{About: about, Effect: Effect{HasRatio: true, Estimate: e}, Floor: floor / shrink, AdjLo: e.Lo, AdjHi: e.Hi}
		r.Verdict = r.comparison(0.05).Decide(about)
		return r
	}
	for _, tt := range []struct {
		point, half, floor float64
		from, to, then     Verdict
	}{
		{0, 0.10, 0.02, NotPrecise, NotPrecise, NoDifference},
		{0.001, 0.02, 0.30, TooNoisy, TooNoisy, NoDifference},
		{0.30, 0.50, 0.02, NotPrecise, NotPrecise, Faster},
		{0.30, 0.10, 0.80, TooNoisy, TooNoisy, Faster},
	} {
		now := made(tt.point, tt.half, tt.floor, 1)
		x := now.Longer(0.05)
		less, more := made(tt.point, tt.half, tt.floor, 0.98*x), made(tt.point, tt.half, tt.floor, 1.02*x)
		if now.Verdict != tt.from || less.Verdict != tt.to || more.Verdict != tt.then {
			t.Errorf("%+v: now %s, after a little less than %.1f times %s, after more %s", tt, now.Verdict, x, less.Verdict,
				more.Verdict)
		}
	}
	if r := made(0.30, 0.01, 0.02, 1); r.Longer(0.05) != 1 {
		t.Error("a decided row", r.Longer(0.05))
	}
	if r := made(0.3, 0.5, math.NaN(), 1); !math.IsNaN(r.Longer(0.05)) {
		t.Error("without a floor", r.Longer(0.05))
	}
}

// Values and changes never contradict each other, with any noise, and if a cell has few blocks.
func TestValuesFit(t *testing.T) {
	run, log := play(t, 7, 3)
	kept := log.Trials[:0]
	for i, x := range log.Trials { // the cell leaves early, and misses blocks
		if x.Cell != "noisy" || x.Generation < 5 && i%3 != 0 {
			kept = append(kept, x)
		}
	}
	log.Trials = kept
	a := Analyze(run, log)
	values := map[string]float64{}
	for _, r := range a.Rows {
		if r.Cell.Baseline == "" {
			values[r.Metric] = r.Value
		}
	}
	n := 0
	for _, r := range a.Rows {
		switch {
		case r.HasRatio && r.Cell.Twin: // the baseline's value is the mean of both
			if x := r.Value / values[r.Metric]; math.Abs(x*x/r.Estimate.Ratio-1) > 1e-9 {
				t.Errorf("%s %s: the values say %v, the ratio %v", r.Cell.ID, r.Metric, x, r.Estimate.Ratio)
			}
		case r.HasRatio:
			if x := r.Value / values[r.Metric]; math.Abs(x/r.Estimate.Ratio-1) > 1e-9 {
				t.Errorf("%s %s: the values say %v, the ratio %v", r.Cell.ID, r.Metric, x, r.Estimate.Ratio)
			}
		case r.HasDifference:
			if x := r.Value - values[r.Metric]; math.Abs(x-r.Difference.Points) > 1e-9 {
				t.Errorf("%s %s: the values say %v, the difference %v", r.Cell.ID, r.Metric, x, r.Difference.Points)
			}
		default:
			continue
		}
		if n++; !(r.ValueLo <= r.Value && r.Value <= r.ValueHi) {
			t.Errorf("%s %s: %v is not within [%v, %v]", r.Cell.ID, r.Metric, r.Value, r.ValueLo, r.ValueHi)
		}
	}
	if n < 20 {
		t.Error("only", n)
	}
}
