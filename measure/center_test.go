package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bisected solves the equation of [Center] by bisection.
func bisected(x []float64) float64 {
	m := Median(x)
	away := make([]float64, len(x))
	for i, v := range x {
		away[i] = math.Abs(v - m)
	}
	s := madToSD * Median(away)
	lo, hi := slices.Min(x), slices.Max(x)
	for range 200 {
		at, sum := (lo+hi)/2, 0.0
		for _, v := range x {
			sum += min(max((v-at)/s, -bend), bend)
		}
		if sum > 0 {
			lo = at
		} else {
			hi = at
		}
	}
	return (lo + hi) / 2
}

func TestCenter(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		x    []float64
		want float64
	}{
		{nil, nan},
		{[]float64{nan}, nan},
		{[]float64{3}, 3},
		{[]float64{3, nan, 5}, 4},
		{[]float64{1, 1, 1, 9}, 1},
		{[]float64{1, 2, 3}, 2},
		{[]float64{inf, inf, 1}, inf},
		{[]float64{-inf, inf}, nan},
	} {
		if got := Center(tt.x); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("center of %v is %v, want %v", tt.x, got, tt.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := 3; n < 60; n++ {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
			if r.IntN(5) == 0 {
				x[i] *= 50
			}
		}
		got, want := Center(x), bisected(x)
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("center of %d values is %v, want %v", n, got, want)
		}
		shifted := make([]float64, n)
		for i := range x {
			shifted[i] = 3*x[i] + 7
		}
		if math.Abs(Center(shifted)-(3*got+7)) > 1e-6 {
			t.Errorf("not equivariant: %v and %v", got, Center(shifted))
		}
		// Nearly half of the values may be anything.
		for i := range (n - 1) / 2 {
			x[i] = 1e12
		}
		if far := Center(x); n > 10 && math.Abs(far) > 500 {
			t.Errorf("with %d of %d values far off: %v", (n-1)/2, n, far)
		}
	}
}

// The center has nearly the efficiency of the mean for normal values, and more than that of the median if one value in
// ten is disturbed. With few values, it has at least 80 % of both.
func TestCenterIsEfficient(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{4, 20, 80} {
		var ofMean, ofCenter, dirtyMedian, dirtyCenter float64
		const times = 4000
		for range times {
			x := make([]float64, n)
			for i := range x {
				x[i] = r.NormFloat64()
			}
			m, c := mean(x), Center(x)
			ofMean, ofCenter = ofMean+m*m, ofCenter+c*c
			for i := range x {
				if r.IntN(10) == 0 {
					x[i] *= 10
				}
			}
			m, c = Median(x), Center(x)
			dirtyMedian, dirtyCenter = dirtyMedian+m*m, dirtyCenter+c*c
		}
		t.Logf("%d values: efficiency %.2f of normal values, %.2f of the median's where some are far off", n, ofMean/ofCenter,
			dirtyMedian/dirtyCenter)
		least, dirty := 0.93, 1.1
		if n < 10 {
			least, dirty = 0.8, 0.8
		}
		if ofMean/ofCenter < least || dirtyMedian/dirtyCenter < dirty {
			t.Errorf("%d values: too little", n)
		}
	}
}

// The median found without sorting is that of the sorted list, whatever the order.
func TestMedianInPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 400; n++ {
		up, few, pipe, signs := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			up[i], few[i], pipe[i] = float64(i), math.Round(r.NormFloat64()*4), float64(min(i, n-i))
			signs[i] = []float64{math.Inf(-1), -1, 1, math.Inf(1)}[r.IntN(4)]
		}
		down := slices.Clone(up)
		slices.Reverse(down)
		mixed := slices.Clone(up)
		r.Shuffle(n, func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		for _, x := range [][]float64{up, down, mixed, few, pipe, signs} {
			sorted := slices.Sorted(slices.Values(x))
			want := sorted[n/2]
			if lo := sorted[(n-1)/2]; lo != want {
				want = lo/2 + want/2
			}
			if got := medianInPlace(x); got != want && !math.IsNaN(want) {
				t.Fatalf("the median of %v is %v, want %v", sorted, got, want)
			}
			if slices.Sort(x); !slices.Equal(x, sorted) {
				t.Fatalf("%v has become %v", sorted, x)
			}
		}
	}
}
