package video

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/nettoll/nettoll/workload/workloadtest"
)

// Drawn videos have lengths, rates and sizes from their distributions (Kolmogorov–Smirnov, at 1 %, fixed seed), and
// from no others.
func TestDrawsFit(t *testing.T) {
	var long, fast, large []float64
	for round := range uint64(100) {
		for _, v := range Draw(7, round, 10) {
			long = append(long, v.Length.Seconds())
			fast = append(fast, v.Rate)
			large = append(large, v.Size())
		}
	}
	size := distuv.LogNormal{ // for the product of two independent ones
		Mu: lengths().Mu + rates().Mu - math.Log(8), Sigma: math.Hypot(lengthSpread, rateSpread),
	}
	for _, c := range []struct {
		name   string
		sample []float64
		cdf    func(float64) float64
		fits   bool
	}{
		{"lengths", long, lengths().CDF, true},
		{"rates", fast, rates().CDF, true},
		{"sizes", large, size.CDF, true},
		{"lengths without a shape", long, distuv.Exponential{Rate: 1 / meanLength.Seconds()}.CDF, false},
		{"rates that are too fast by a fifth", fast, distuv.LogNormal{Mu: rates().Mu + 0.2, Sigma: rateSpread}.CDF, false},
	} {
		if d := workloadtest.Apart(c.sample, c.cdf); (d <= workloadtest.Critical(len(c.sample))) != c.fits {
			t.Errorf("%s: %.4f apart, critical value %.4f, want it to fit: %v", c.name, d, workloadtest.Critical(len(c.sample)),
				c.fits)
		}
	}
}

// Videos that play together have 3 GB an hour each on average, whatever their number, and every draw gives the same.
func TestDraw(t *testing.T) {
	for _, n := range []int{1, 2, 10, 100} {
		for round := range uint64(5) {
			sum := 0.0
			for _, v := range Draw(3, round, n) {
				sum += v.Rate
				if v.Length <= 0 || v.Rate <= 0 {
					t.Errorf("%+v", v)
				}
			}
			if got := sum / float64(n) * 3600 / 8; math.Abs(got/3e9-1) > 1e-9 {
				t.Errorf("%d videos: %g bytes an hour", n, got)
			}
		}
	}
	if !slices.Equal(Draw(3, 1, 10), Draw(3, 1, 10)) || slices.Equal(Draw(3, 1, 10), Draw(3, 2, 10)) ||
		slices.Equal(Draw(3, 1, 10), Draw(4, 1, 10)) {
		t.Error("videos do not follow from seed and round")
	}
}
