package measure

import (
	"math"
	"slices"
)

// Verdict is what may be said about a cell in one metric.
type Verdict string

// Verdicts.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Higher       Verdict = "higher" // for metrics that are no speed: shares, CPU, memory, rates sent
	Lower        Verdict = "lower"
	NoDifference Verdict = "no difference above the floor"
	NotPrecise   Verdict = "not precise enough"
	TooFew       Verdict = "too few generations" // fewer than LeastGenerations
	IsBaseline   Verdict = "baseline"
	IsTwin       Verdict = "twin"
	HasFailed    Verdict = "failed"
	IsProbed     Verdict = "probed" // a cell with a probe on: it has no twin, so no floor, and nothing is claimed of it
)

// Comparison is a cell against its baseline on an additive scale: natural logarithms of ratios, or, for metrics
// compared by difference, the metric's unit.
type Comparison struct {
	Point    float64
	Interval Interval // 95 %
	Adjusted Interval // at the level Holm's procedure gives this cell
	Floor    float64  // see Floor; NaN where there is no twin
	// Precision is what the run asked for, on the same scale: ln(1+precision) for ratios; 0 asks for a strict reading.
	Precision float64
}

// Decide applies the rules, in this order. f is the floor, d the precision:
//
//   - faster/slower (higher/lower where the metric is no speed): the adjusted interval excludes 0 and |point| > f. The
//     direction of faster is the metric's better one.
//   - no difference above the floor: the 95 % interval meets [−f, f] and lies within [−(f+d), f+d]. So what the data
//     leave room for beyond the floor is less than the precision the run was asked for: a wide interval never ends
//     here.
//   - not precise enough: everything else, and everything where floor or interval are unknown.
//
// The margin is f+d and not max(f, d), because a cell that left at the precision asked for has an interval of
// half-width d: an equal cell would have to hit 0 exactly to lie within ±d.
func (c Comparison) Decide(m Metric) Verdict {
	if slices.ContainsFunc([]float64{c.Point, c.Interval.Lo, c.Interval.Hi, c.Adjusted.Lo, c.Adjusted.Hi, c.Floor},
		math.IsNaN) {
		return NotPrecise
	}
	switch margin := c.Floor + max(c.Precision, 0); {
	case (c.Adjusted.Lo > 0 || c.Adjusted.Hi < 0) && math.Abs(c.Point) > c.Floor:
		return direction(c.Point > 0, m)
	case c.Interval.Lo <= c.Floor && c.Interval.Hi >= -c.Floor && -margin <= c.Interval.Lo && c.Interval.Hi <= margin:
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

// Floor returns the larger absolute end of the twins' log-ratio interval: a difference the machine makes between two
// equal cells. It is +Inf where the interval is unbounded.
func Floor(twin Estimate) float64 {
	return max(math.Abs(math.Log(twin.Lo)), math.Abs(math.Log(twin.Hi)))
}

// FloorOf returns the same of a twin compared by difference, in the metric's unit.
func FloorOf(twin Difference) float64 { return max(math.Abs(twin.Lo), math.Abs(twin.Hi)) }

// Holm returns, for each p-value, the error rate at which the interval of its hypothesis is to be drawn, such that the
// interval excludes the hypothesis exactly when Holm's step-down procedure at alpha rejects it (S. Holm, A simple
// sequentially rejective multiple test procedure, Scand. J. Stat. 6 (1979) 65). With p in ascending order and m
// hypotheses, the i-th (from 1) gets alpha/(m−i+1); from the first that is not rejected on, all get the level of that
// one. A NaN is no hypothesis: it does not count and its level is NaN.
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
