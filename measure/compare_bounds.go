package measure

import (
	"math"
)

// shifts finds the baselines whose own values changed by more than the floor, and fills their Shift or Unsure. All of
// them are one family for Holm's procedure: at most 5 % of pairs of equal runs show any shift, unless the
// machine changes faster between runs than within them (see [Change.own]).
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
		if beyond := max(lo, -hi) - c.Floor; beyond > 0 {
			if c.Unsure = direction(x.mean > 0, c.About); beyond > c.allowed(x.mean > 0) {
				c.Shift, c.Unsure = c.Unsure, ""
			}
		}
		if c.ShiftLo, c.ShiftHi = lo, hi; c.Own.HasRatio {
			c.ShiftLo, c.ShiftHi = math.Exp(lo), math.Exp(hi)
		}
	}
}

// lastingShare is the variance of a run's level, as a share of that of its generations. With a quarter, 6 % of equal
// pairs on a machine that drifts show a shift, with a half 2 % (TestEqualDrift, 400 pairs).
const lastingShare = 0.5

// own returns the change of the value itself on an additive scale; ok is false if it cannot be judged.
//
// The generations of a run are measured within minutes, and two runs hours apart. A ratio does not see what the machine
// does to all stacks alike in between; a value does, and the generations of a run do not show it. So own takes for each
// run that its whole level varies, with half of the variance of its generations, besides the error of their mean:
//
//	s² = (1 + G_new/2)·s_new² + (1 + G_old/2)·s_old²      s_i = σ_i/√G_i, the standard error over G_i generations
//
// Without that term, equal runs on a machine that drifts show false shifts in a fifth of the pairs: see TestEqualDrift.
func (c *Change) own() (x tEstimate, ok bool) {
	if !c.decidable() {
		return x, false
	}
	before, ok1 := additive(c.Old.Own)
	after, ok2 := additive(c.New.Own)
	before.stderr *= math.Sqrt(1 + lastingShare*float64(c.Old.Generations))
	after.stderr *= math.Sqrt(1 + lastingShare*float64(c.New.Generations))
	return welch(before, after), ok1 && ok2 && (c.Own.HasRatio || c.Own.HasDifference)
}

// allowed returns how far other programs and the hypervisor may have moved the value, on the scale on which it is
// judged. For a change to the worse those of the new run count, for one to the better those of the old one.
func (c *Change) allowed(up bool) float64 {
	switch {
	case c.About.Better == HigherBetter && up, c.About.Better == LowerBetter && !up:
		return c.OldLoad.moves(c.About)
	case c.About.Better == HigherBetter, c.About.Better == LowerBetter:
		return c.NewLoad.moves(c.About)
	}
	return max(c.OldLoad.moves(c.About), c.NewLoad.moves(c.About))
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
// and the change itself is further from it than the floor. For a baseline it also has to be further than other programs
// may have moved it. Otherwise the answer is CannotTell, also with fewer than
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
		least := b.Change.Floor
		if b.Change.Verdict == IsBaseline {
			least += b.Change.allowed(d > 0)
		}
		switch half := tQuantile(1-level/2, x.df) * x.stderr; {
		case !ok || math.Abs(d) <= half || math.Abs(d) <= least:
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
