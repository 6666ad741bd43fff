package workloadtest

import (
	"math"
	"slices"
)

// Apart returns the Kolmogorov–Smirnov statistic of a sample against a distribution, both of which may have steps: the
// largest distance between their distribution functions.
func Apart(sample []float64, cdf func(float64) float64) float64 {
	sample = slices.Sorted(slices.Values(sample))
	d, n := 0.0, float64(len(sample))
	for i := 0; i < len(sample); {
		x, below := sample[i], i
		for i < len(sample) && sample[i] == x {
			i++
		}
		d = max(d, math.Abs(cdf(x)-float64(i)/n), math.Abs(cdf(math.Nextafter(x, math.Inf(-1)))-float64(below)/n))
	}
	return d
}

// Critical returns the value that the statistic of n independent values exceeds in 1 % of cases, or less often if a
// distribution has steps (Smirnov 1948: √(−ln(0.01/2)/2)/√n).
func Critical(n int) float64 { return math.Sqrt(-math.Log(0.01/2)/2) / math.Sqrt(float64(n)) }

// Whole returns the distribution of values rounded to whole numbers.
func Whole(cdf func(float64) float64) func(float64) float64 {
	return func(x float64) float64 { return cdf(math.Floor(x) + 0.5) }
}
