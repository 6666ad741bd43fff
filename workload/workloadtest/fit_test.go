package workloadtest_test

import (
	"math"
	"testing"

	"github.com/nettoll/nettoll/workload/workloadtest"
)

// A sample at the middles of equal shares is half a share off its distribution. A sample with a step is off by the size
// of the missing step.
func TestApart(t *testing.T) {
	uniform := func(x float64) float64 { return min(max(x, 0), 1) }
	if got := workloadtest.Apart([]float64{0.875, 0.125, 0.625, 0.375}, uniform); math.Abs(got-0.125) > 1e-12 {
		t.Errorf("%g, want 0.125", got)
	}
	if got := workloadtest.Apart([]float64{0.5, 0.5, 0.5}, uniform); got != 0.5 {
		t.Errorf("three times the middle: %g, want 0.5", got)
	}
	step := func(x float64) float64 {
		if x >= 0.5 {
			return 1
		}
		return 0
	}
	if got := workloadtest.Apart([]float64{0.5, 0.5, 0.5}, step); got != 0 {
		t.Errorf("a step against itself: %g", got)
	}
	if got := workloadtest.Apart([]float64{1, 2, 2, 3},
		workloadtest.Whole(func(x float64) float64 { return min(max((x-0.5)/4, 0), 1) })); got != 0.25 {
		t.Errorf("whole numbers: %g, want 0.25", got)
	}
	if got := workloadtest.Critical(100); math.Abs(got-0.1628) > 1e-4 { // tables: 1.628/√n
		t.Errorf("critical value of 100: %g", got)
	}
}
