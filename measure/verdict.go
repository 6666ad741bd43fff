package measure

import (
	"math"
	"slices"
)

// Verdict is the conclusion about a cell in one metric.
type Verdict string

// Verdicts.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Higher       Verdict = "higher" // for metrics that are not a speed: shares, CPU, memory, rates sent
	Lower        Verdict = "lower"
	NoDifference Verdict = "no difference" // the two are equivalent: within the margin of the run
	NotPrecise   Verdict = "not precise enough"
	TooNoisy     Verdict = "too noisy to tell"   // two equal stacks may differ by more than the margin
	TooFew       Verdict = "too few generations" // fewer than LeastGenerations
	IsBaseline   Verdict = "baseline"
	IsTwin       Verdict = "twin"
	HasFailed    Verdict = "failed"
	Leaks        Verdict = "leaks"        // a proof or an attack read what is hidden, or received what is refused
	IsProbed     Verdict = "probed"       // with a probe on: without a twin there is no floor, and so no verdict
	IsAlone      Verdict = "alone"        // a member of a mix alone: [Analysis.Beside] has the effect of the mix on it
	NotCompared  Verdict = "not compared" // the metric is shown without a verdict: see [Metric.Compares]
)

// Failed reports whether a verdict says that a cell has no figures to compare.
func (v Verdict) Failed() bool { return v == HasFailed || v == Leaks }

// Differs reports whether a verdict finds a difference.
func Differs(v Verdict) bool { return v == Faster || v == Slower || v == Higher || v == Lower }

// Comparison is a cell against its baseline on an additive scale: natural logarithms of ratios, or, for metrics
// compared by difference, the metric's unit.
type Comparison struct {
	Point    float64
	Interval Interval // 95 %
	Adjusted Interval // at the level that Holm's procedure gives this cell
	Floor    float64  // see [Floor]; NaN if there is no twin
	Moved    float64  // how far other programs may have moved the point, see [Analysis]; 0: not noticeably
	// Margin is the distance within which two stacks count as equal, on the same scale: ln(1+margin) for ratios.
	Margin float64
}

// Decide applies the rules, in this order. f is the floor or, if that is larger, Moved; m is the margin:
//
//   - faster/slower (higher/lower if the metric is not a speed): the adjusted interval excludes 0, and |point| > f.
//     Faster is the better direction of the metric.
//   - too noisy to tell: f ≥ m. Two equal stacks may differ by as much as the margin, or other programs may have made
//     or hidden such a difference. So no interval, however narrow, could show that these two are equal.
//   - no difference: the whole 95 % interval lies within (−m, m). That is a test of equivalence (D. J. Schuirmann, A
//     comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of average
//     bioavailability, J. Pharmacokinet. Biopharm. 15 (1987) 657), at half the level that two one-sided tests need.
//   - not precise enough: everything else, including an unknown floor or interval.
func (c Comparison) Decide(m Metric) Verdict {
	if slices.ContainsFunc([]float64{c.Point, c.Interval.Lo, c.Interval.Hi, c.Adjusted.Lo, c.Adjusted.Hi, c.Floor},
		math.IsNaN) {
		return NotPrecise
	}
	floor := max(c.Floor, c.Moved)
	switch {
	case (c.Adjusted.Lo > 0 || c.Adjusted.Hi < 0) && math.Abs(c.Point) > floor:
		return direction(c.Point > 0, m)
	case math.IsInf(c.Floor, 0):
		return NotPrecise
	case floor >= c.Margin:
		return TooNoisy
	case -c.Margin < c.Interval.Lo && c.Interval.Hi < c.Margin:
		return NoDifference
	}
	return NotPrecise
}

func direction(up bool, m Metric) Verdict {
	switch {
	case m.Speed() && up == (m.Better == HigherBetter):
		return Faster
	case m.Speed():
		return Slower
	case up:
		return Higher
	}
	return Lower
}

// Floor returns the larger absolute end of the twin's log-ratio interval: the difference that the machine makes between
// two equal cells, as a natural logarithm. It is +Inf if the interval is unbounded.
func Floor(twin Estimate) float64 {
	return max(math.Abs(math.Log(twin.Lo)), math.Abs(math.Log(twin.Hi)))
}

// FloorOf returns the floor of a twin that is compared by difference, in the metric's unit.
func FloorOf(twin Difference) float64 { return max(math.Abs(twin.Lo), math.Abs(twin.Hi)) }

// Holm returns for each p-value the error rate at which to draw the interval of its hypothesis. The interval then
// excludes the hypothesis exactly if Holm's step-down procedure at alpha rejects it (S. Holm, A simple sequentially
// rejective multiple test procedure, Scand. J. Stat. 6 (1979) 65). With p in ascending order and m hypotheses, the i-th
// (from 1) gets alpha/(m−i+1). From the first one that is not rejected on, all get the level of that one. A NaN is not
// a hypothesis: it does not count, and its level is NaN.
func Holm(p []float64, alpha float64) []float64 {
	order := make([]int, 0, len(p))
	levels := make([]float64, len(p))
	for i, x := range p {
		levels[i] = math.NaN()
		if !math.IsNaN(x) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	level, rejecting := alpha, true
	for rank, i := range order {
		if rejecting {
			level = alpha / float64(len(order)-rank)
			rejecting = p[i] <= level
		}
		levels[i] = level
	}
	return levels
}
