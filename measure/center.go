package measure

import "math"

// Constants of [Center]: the distance from the center, in standard deviations, beyond which the weight of a value is
// bounded; the factor that makes a median absolute deviation a standard deviation of normal values; the most steps of
// the iteration, and the step, in standard deviations, that ends it.
const (
	bend       = 1.345
	madToSD    = 1.4826
	mostSteps  = 100
	smallSteps = 1e-10
)

// Center returns the center of the values that are not NaN: Huber's M-estimator with the scale fixed at the median
// absolute deviation (P. J. Huber, Robust estimation of a location parameter, Ann. Math. Stat. 35 (1964) 73). For
// normal values it has 95 % of the efficiency of the mean; the median has 64 %. A value that is far off counts as if it
// were 1.345 standard deviations off, and nearly half of the values may be anything. Center is the median if half of
// the values are equal or infinite, and NaN if there are none. The argument is not changed.
//
//	s = 1.4826 · median |x − median x|
//	T:  Σ ψ((x − T)/s) = 0, ψ(u) = u within ±1.345, else ±1.345
func Center(x []float64) float64 {
	buf := make([]float64, 0, 2*len(x))
	for _, v := range x {
		if !math.IsNaN(v) {
			buf = append(buf, v)
		}
	}
	at := medianInPlace(buf)
	if len(buf) < 3 || !finite(at) {
		return at
	}
	away := buf[len(buf):cap(buf)][:len(buf)]
	for i, v := range buf {
		away[i] = math.Abs(v - at)
	}
	scale := madToSD * medianInPlace(away)
	if !(scale > 0) || math.IsInf(scale, 0) {
		return at
	}
	for range mostSteps {
		sum, inside := 0.0, 0
		for _, v := range buf {
			u := (v - at) / scale
			if u > -bend && u < bend {
				inside++
			}
			sum += min(max(u, -bend), bend)
		}
		if inside == 0 {
			break
		}
		step := scale * sum / float64(inside) // Newton's method
		if at += step; math.Abs(step) <= smallSteps*scale {
			break
		}
	}
	return at
}
