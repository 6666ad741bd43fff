package measure

import "math"

// minSlices is the least number of slices for which Steady gives an answer.
const minSlices = 10

// Steady finds the time from which a stream is steady, by the truncation of White's MSER (K. P. White, An effective
// truncation heuristic for bias reduction in simulation output, Simulation 69 (1997) 323). cumulative holds the bytes
// delivered at equally spaced times, from time 0: n+1 values for n slices. With x_i the bytes of slice i (from 1) and
// x̄ the mean of slices d+1 … n, Steady chooses the d ≤ n/2 with the smallest
//
//	z(d) = Σ_{i>d} (x_i − x̄)² / (n−d)²    bytes², the squared standard error of the mean of what is left
//
// open is d: the index in cumulative at which the window opens. ok is false if the minimum lies on the bound (the
// stream has not become steady; steady growth always ends there, accelerating growth need not), if nothing was
// delivered in the kept part, or if there are fewer than 10 slices.
func Steady(cumulative []float64) (open int, ok bool) {
	n := len(cumulative) - 1
	if n < minSlices {
		return 0, false
	}
	best := math.Inf(1)
	sum, sumsq := 0.0, 0.0
	total := (cumulative[n] - cumulative[0]) / float64(n) // shift by the overall mean: the sums stay small
	for d := n - 1; d >= 0; d-- {
		x := cumulative[d+1] - cumulative[d] - total
		sum += x
		sumsq += x * x
		if d > n/2 {
			continue
		}
		k := float64(n - d)
		// A variance below a billionth of the mean is rounding, not movement.
		if z := max(sumsq-sum*sum/k, k*total*total*1e-18) / (k * k); z <= best { // equal: the earlier truncation keeps more
			best, open = z, d
		}
	}
	return open, open < n/2 && cumulative[n] > cumulative[open]
}
