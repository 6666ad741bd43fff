package measure

import (
	"math"
)

// shifts finds the baselines whose own values changed by more than the floor, and fills their Shift. All of them are
// one family for Holm's procedure: at most 5 % of pairs of equal runs show any shift.
func shifts(baselines []*Change) {
	p := make([]float64, len(baselines))
	for i, c := range baselines {
		p[i] = math.NaN()
		if x, ok := c.own(); ok {
			p[i] = twoSided(max(0, math.Abs(x.mean)-c.Floor), x.stderr, x.df)
		}
	}
	for i, level := range Holm(p, drawn) {
		c := baselines[i]
		x, ok := c.own()
		if !ok {
			continue
		}
		half := tQuantile(1-level/2, x.df) * x.stderr
		lo, hi := x.mean-half, x.mean+half
		if lo > c.Floor || hi < -c.Floor {
			c.Shift = direction(x.mean > 0, c.About)
		}
		if c.ShiftLo, c.ShiftHi = lo, hi; c.Own.HasRatio {
			c.ShiftLo, c.ShiftHi = math.Exp(lo), math.Exp(hi)
		}
	}
}

// own returns the change of the value itself on an additive scale; ok is false if it cannot be judged.
func (c *Change) own() (x tEstimate, ok bool) {
	x, ok = additive(c.Own)
	return x, ok && c.decidable()
}

// decidable reports whether the change has enough generations and a floor.
func (c *Change) decidable() bool {
	return c.Old != nil && c.New != nil && min(c.Old.Generations, c.New.Generations) >= LeastGenerations && finite(c.Floor)
}

// additive returns the effect on the scale on which it is judged: logarithms for ratios, units for differences.
func additive(e Effect) (x tEstimate, ok bool) {
	switch {
	case e.HasRatio:
		x = tEstimate{mean: e.Estimate.Log, stderr: e.Estimate.StdErr, df: e.Estimate.DF}
	case e.HasDifference:
		x = tEstimate{mean: e.Difference.Points, stderr: e.Difference.StdErr, df: e.Difference.DF}
	}
	return x, x.df > 0 && finite(x.mean) && finite(x.stderr)
}

// Bound claims that a change is larger (above) or smaller than a bound: a natural logarithm of a ratio, or in the
// metric's unit if it is compared by difference.
type Bound struct {
	Change *Change
	At     float64
	Above  bool
}

// Exceed judges bounds as [Judge] does; all of them are one family for Holm's procedure. A change is beyond its bound
// (Holds), or not (DoesNotHold), if its interval, at the level that the procedure gives the bound, excludes the bound,
// and the change itself is further from it than the floor. Otherwise the answer is CannotTell, also with fewer than
// [LeastGenerations] generations in a run, or if floor or interval are unknown. For a baseline whose ratios are
// compared, the value itself is judged.
func Exceed(list []Bound) []Finding {
	p := make([]float64, len(list))
	for i, b := range list {
		p[i] = math.NaN()
		if x, ok := b.effect(); ok {
			p[i] = twoSided(x.mean-b.At, x.stderr, x.df)
		}
	}
	found := make([]Finding, len(list))
	for i, level := range Holm(p, drawn) {
		b := list[i]
		x, ok := b.effect()
		d := x.mean - b.At
		switch half := tQuantile(1-level/2, x.df) * x.stderr; {
		case !ok || math.Abs(d) <= half || math.Abs(d) <= b.Change.Floor:
			found[i] = CannotTell
		case d > 0 == b.Above:
			found[i] = Holds
		default:
			found[i] = DoesNotHold
		}
	}
	return found
}

func (b Bound) effect() (x tEstimate, ok bool) {
	if b.Change.Verdict == IsBaseline {
		return b.Change.own()
	}
	x, ok = additive(b.Change.Effect)
	return x, ok && b.Change.decidable()
}
