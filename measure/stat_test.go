package measure

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func near(tolerance float64) cmp.Option {
	return cmp.Options{cmpopts.EquateApprox(0, tolerance), cmpopts.EquateNaNs()}
}

func TestMedian(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		in   []float64
		want float64
	}{
		{nil, nan},
		{[]float64{nan}, nan},
		{[]float64{3}, 3},
		{[]float64{3, 1}, 2},
		{[]float64{3, nan, 1, 2}, 2},
		{[]float64{-inf, 1, inf}, 1},
		{[]float64{-inf, -inf}, -inf},
		{[]float64{-inf, inf}, nan},
		{[]float64{-inf, 1}, -inf},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
	} {
		if d := cmp.Diff(tt.want, Median(tt.in), cmpopts.EquateNaNs()); d != "" {
			t.Error(tt.in, d)
		}
	}
	x := []float64{3, 1, 2}
	Median(x)
	if d := cmp.Diff([]float64{3, 1, 2}, x); d != "" {
		t.Error("the argument was changed", d)
	}
}

func TestLogRatio(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct{ cell, base, want float64 }{
		{2, 1, math.Ln2},
		{1, 2, -math.Ln2},
		{0, 1, -inf},
		{1, 0, inf},
		{0, 0, nan},
		{-1, 1, nan},
		{1, -1, nan},
		{nan, 1, nan},
		{inf, 1, nan},
	} {
		if d := cmp.Diff(tt.want, LogRatio(tt.cell, tt.base), near(1e-15)); d != "" {
			t.Error(tt, d)
		}
	}
}

func TestEstimateRatio(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	// By hand: centers 1 (two of three are equal), 2, 3 (symmetric); mean 2, sd 1, standard error 1/√3; t(0.98, 2) =
	// 4.8487; p of t = 2√3 with 2 degrees of freedom: 0.07418.
	h := 4.848732 / math.Sqrt(3)
	known := Estimate{
		Ratio: math.Exp(2), Lo: math.Exp(2 - h), Hi: math.Exp(2 + h), Log: 2, StdErr: 1 / math.Sqrt(3), DF: 2, P: 0.0741799,
		Generations: 3, Blocks: 7, Spread: 1,
	}
	for _, tt := range []struct {
		name string
		gens [][]float64
		want Estimate
		err  error
	}{
		{"known", [][]float64{{1, 1, 9}, {2}, {}, {4, 2, 3, nan}}, known, nil},
		{"all the same", [][]float64{{1}, {1}}, Estimate{
			Ratio: math.E, Lo: math.E, Hi: math.E, Log: 1, DF: 1, P: 0, Generations: 2, Blocks: 2,
		}, nil},
		{"all equal to the baseline", [][]float64{{0}, {0}}, Estimate{
			Ratio: 1, Lo: 1, Hi: 1, DF: 1, P: 1, Generations: 2, Blocks: 2,
		}, nil},
		{"an infinite block in the minority", [][]float64{{-inf, 0, 0}, {0}}, Estimate{
			Ratio: 1, Lo: 1, Hi: 1, DF: 1, P: 1, Generations: 2, Blocks: 4,
		}, nil},
		{
			"an infinite median",
			[][]float64{{-inf, -inf, 0}, {0}},
			Estimate{Ratio: 0, Log: -inf, Generations: 2, Blocks: 4},
			ErrNotFinite,
		},
		{
			"a divided median",
			[][]float64{{-inf, inf}, {0}},
			Estimate{Ratio: nan, Log: nan, Generations: 2, Blocks: 3},
			ErrNotFinite,
		},
		{
			"one generation",
			[][]float64{{1, 2}},
			Estimate{Ratio: math.Exp(1.5), Log: 1.5, Generations: 1, Blocks: 2},
			ErrFewGenerations,
		},
		{"nothing", [][]float64{nil, {nan}}, Estimate{Ratio: nan, Log: nan}, ErrFewGenerations},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := EstimateRatio(tt.gens)
			if !errors.Is(err, tt.err) {
				t.Errorf("error is %v, want %v", err, tt.err)
			}
			if d := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-5, 1e-7), cmpopts.EquateNaNs()); d != "" {
				t.Error(d)
			}
		})
	}
	if d := cmp.Diff(math.Expm1(h), known.HalfWidth(), near(1e-9)); d != "" {
		t.Error(d)
	}
}

func TestEstimateDifference(t *testing.T) {
	got, err := EstimateDifference([][]float64{{0, 0, 0, 0.04}, {0, 0}, {0.02, 0.04, math.NaN()}})
	if err != nil {
		t.Fatal(err)
	}
	// means 0.01, 0, 0.03
	mean, sd := 0.04/3, 0.015275252
	h := 4.848732 * sd / math.Sqrt(3)
	want := Difference{
		Points: mean, Lo: mean - h, Hi: mean + h, StdErr: sd / math.Sqrt(3), DF: 2, P: 0.2697,
		Generations: 3, Blocks: 8, Spread: sd,
	}
	if d := cmp.Diff(want, got, near(1e-4)); d != "" {
		t.Error(d)
	}
	none, err := EstimateDifference([][]float64{{0}, {0}})
	if err != nil || none.P != 1 || none.HalfWidth() != 0 {
		t.Error("no loss against no loss:", none, err)
	}
	if _, err := EstimateDifference(nil); !errors.Is(err, ErrFewGenerations) {
		t.Error(err)
	}
}

func TestHolm(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name    string
		p, want []float64
	}{
		{"none", nil, []float64{}},
		{"one", []float64{0.2}, []float64{0.05}},
		{"all rejected", []float64{0.02, 0.001, 0.03}, []float64{0.025, 0.05 / 3, 0.05}},
		{"stops at the second", []float64{0.04, 0.001, 0.03}, []float64{0.025, 0.05 / 3, 0.025}},
		{"none rejected", []float64{0.04, 0.03, 0.5}, []float64{0.05 / 3, 0.05 / 3, 0.05 / 3}},
		{"not a number", []float64{nan, 0.04, nan}, []float64{nan, 0.05, nan}},
		{"ties", []float64{0.02, 0.02}, []float64{0.025, 0.05}},
	} {
		if d := cmp.Diff(tt.want, Holm(tt.p, 0.05), near(1e-12)); d != "" {
			t.Error(tt.name, d)
		}
	}
}

func TestDecide(t *testing.T) {
	higher, _ := Version2().Lookup("goodput")
	lower, _ := Version2().Lookup("latency_p50")
	neither, _ := Version2().Lookup("packet_rate_sent")
	share, _ := Version2().Lookup("loss")
	unknown, _ := Version2().Lookup("hops")
	// x ± w, adjusted ± a, floor f, margin m
	c := func(x, w, a, f, m float64) Comparison {
		return Comparison{x, Interval{x - w, x + w}, Interval{x - a, x + a}, f, 0, m}
	}
	moved := func(by float64, c Comparison) Comparison {
		c.Moved = by
		return c
	}
	for _, tt := range []struct {
		name string
		c    Comparison
		m    Metric
		want Verdict
	}{
		{"clear gain", c(.10, .02, .03, .02, .02), higher, Faster},
		{"clear loss", c(-.10, .02, .03, .02, .02), higher, Slower},
		{"more latency", c(.10, .02, .03, .02, .02), lower, Slower},
		{"less latency", c(-.10, .02, .03, .02, .02), lower, Faster},
		{"more sent", c(.10, .02, .03, .02, .02), neither, Higher},
		{"less loss", c(-.10, .02, .03, .02, .02), share, Lower},
		{"unknown metric", c(.10, .02, .03, .02, .02), unknown, Higher},
		{"wide but clear", c(.80, .30, .40, .02, .02), higher, Faster},
		{"clear, however noisy the twins", c(.80, .30, .40, .50, .05), higher, Faster},
		{"significant, but below the floor", c(.010, .005, .006, .02, .05), higher, NoDifference},
		{"below the floor, reaching beyond the margin", c(.019, .032, .04, .02, .05), higher, NotPrecise},
		{"equal and precise", c(0, .02, .03, .021, .05), higher, NoDifference},
		{"equal and precise, a small floor", c(.001, .02, .03, .005, .05), higher, NoDifference},
		{"equal but wide", c(0, .10, .15, .02, .05), higher, NotPrecise},
		{"wide, and so are the twins", c(.01, .10, .15, .10, .05), higher, TooNoisy},
		{"precise, but the twins are not", c(.01, .02, .03, .10, .05), higher, TooNoisy},
		{"a floor as large as the margin", c(.01, .02, .03, .05, .05), higher, TooNoisy},
		{"far apart below a far larger floor", c(1.2, .3, .4, 3.1, .05), higher, TooNoisy},
		{"beyond the floor, not past Holm, within the margin", c(.02, .01, .03, .005, .05), higher, NoDifference},
		{"an interval that ends at the margin", c(0, .05, .06, .02, .05), higher, NotPrecise},
		{"no twin", c(.5, .01, .01, math.NaN(), .02), higher, NotPrecise},
		{"clear, but other programs may have moved it", moved(.40, c(.10, .02, .03, .02, .05)), higher, TooNoisy},
		{"clear, more than other programs may have moved", moved(.40, c(.80, .02, .03, .02, .05)), higher, Faster},
		{"moved by less than the margin", moved(.04, c(.03, .01, .02, .02, .05)), higher, NoDifference},
		{"an unbounded twin", c(.5, .01, .01, math.Inf(1), .02), higher, NotPrecise},
	} {
		if got := tt.c.Decide(tt.m); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFloor(t *testing.T) {
	for _, tt := range []struct {
		lo, hi, want float64
	}{{1 / 1.05, 1.02, math.Log(1.05)}, {0.99, 1.03, math.Log(1.03)}, {1.01, 1.02, math.Log(1.02)}} {
		if d := cmp.Diff(tt.want, Floor(Estimate{Lo: tt.lo, Hi: tt.hi}), near(1e-12)); d != "" {
			t.Error(d)
		}
	}
	if got := FloorOf(Difference{Lo: -0.03, Hi: 0.01}); got != 0.03 {
		t.Error(got)
	}
}

func TestClopperPearson(t *testing.T) {
	// R: binom.test(k, n)$conf.int
	for _, tt := range []struct {
		k, n   int
		lo, hi float64
	}{
		{0, 10, 0, 0.3084971},
		{10, 10, 0.6915029, 1},
		{5, 10, 0.1870860, 0.8129140},
		{95, 100, 0.8871651, 0.9835681},
		{0, 0, 0, 1},
		{5, 3, 0, 1},
		{-1, 3, 0, 1},
	} {
		lo, hi := ClopperPearson(tt.k, tt.n, 0.95)
		if d := cmp.Diff([]float64{tt.lo, tt.hi}, []float64{lo, hi}, near(1e-6)); d != "" {
			t.Error(tt.k, tt.n, d)
		}
	}
}

func TestSteady(t *testing.T) {
	stream := func(n int, rate func(i int) float64) []float64 {
		c := make([]float64, n+1)
		for i := range n {
			c[i+1] = c[i] + rate(i)
		}
		return c
	}
	wobble := func(i int) float64 { return 100 + 5*math.Sin(float64(i)*2.3) }
	for _, tt := range []struct {
		name string
		in   []float64
		open int
		ok   bool
	}{
		{"steady from the start", stream(50, wobble), 0, true},
		{"constant", stream(50, func(int) float64 { return 0.1 }), 0, true},
		{"slow start", stream(50, func(i int) float64 { return wobble(i) * min(1, float64(i+1)/10) }), 9, true},
		{"nothing at first", stream(50, func(i int) float64 { return wobble(i) * float64(min(1, i/12)) }), 12, true},
		{"still growing", stream(50, func(i int) float64 { return float64(i) }), 25, false},
		{"nothing at all", stream(50, func(int) float64 { return 0 }), 0, false},
		{"too short", stream(9, wobble), 0, false},
		{"empty", nil, 0, false},
	} {
		open, ok := Steady(tt.in)
		if open != tt.open || ok != tt.ok {
			t.Errorf("%s: %d, %v, want %d, %v", tt.name, open, ok, tt.open, tt.ok)
		}
	}
}

func TestLookPlan(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tt := range []struct {
		generations, affordable int
		best                    []float64 // at each look, then none
		blocks                  []int     // of the first generations
		looks                   []int     // after so many generations
	}{
		{0, 0, nil, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, []int{5, 10, 20, 40}},
		{0, 0, []float64{inf, inf, nan}, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 16}, []int{5, 10, 15}},
		{0, 0, []float64{0.3, 0.3}, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 6, 6}, []int{5, 10, 17}},
		{0, 0, []float64{9, 7.3, 13.4}, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 7, 7, 7, 7, 7, 7, 13}, []int{5, 10, 16, 23}},
		{0, 0, []float64{9, 9, nan, 0}, []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 16}, []int{5, 10, 15, 20, 35}},
		{10, 0, []float64{9, 9, 9}, []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4}, []int{10, 20, 30}},
		{5, 10, nil, []int{2, 2, 2, 2, 2, 2}, []int{5, 10}},
		{5, 3, []float64{0, 0, 0}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []int{5, 10, 20}},
		{5, 1000, nil, []int{4, 4}, []int{5}},
	} {
		p := NewLookPlan(tt.generations, tt.affordable)
		var blocks, looks []int
		for g := 1; len(looks) < len(tt.looks); g++ {
			blocks = append(blocks, p.Blocks)
			if p.Done(p.Blocks) {
				if p.Looks <= len(tt.best) {
					p.Choose(tt.best[p.Looks-1])
				}
				looks = append(looks, g)
			}
		}
		blocks = append(blocks, p.Blocks)
		if d := cmp.Diff(tt.looks, looks); d != "" {
			t.Errorf("%+v: looks (-want +got):\n%s", tt, d)
		}
		if n := min(len(blocks), len(tt.blocks)); !slices.Equal(blocks[:n], tt.blocks[:n]) {
			t.Errorf("%+v: blocks %v", tt, blocks)
		}
	}
}

// A generation with fewer blocks than planned delays the look.
func TestLookPlanShort(t *testing.T) {
	p := NewLookPlan(0, 0)
	for range 5 {
		p.Done(4)
	}
	for g, blocks := range []int{4, 4, 0, 4, 4, 4} {
		if look := p.Done(blocks); look != (g == 5) {
			t.Errorf("generation %d: look %v", g, look)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct {
		value      float64
		unit, want string
	}{
		{12.3e-6, "s", "12.3 µs"},
		{0.05, "s", "50 ms"},
		{1.5, "s", "1.5 s"},
		{5400, "s", "5400 s"},
		{-12.3e-6, "s", "-12.3 µs"},
		{999.96e-6, "s", "1 ms"},
		{34.1e9, "bit/s", "34.1 Gbit/s"},
		{81234, "transaction/s", "81.2 k/s"},
		{12, "connection/s", "12 /s"},
		{81234, "packet/s", "81.2 kpacket/s"},
		{0.008, "1", "0.8 %"},
		{0.00001234, "1", "0.00123 %"},
		{1, "1", "100 %"},
		{0, "1", "0 %"},
		{0, "s", "0 s"},
		{1.234, "cores", "1.23 cores"},
		{3, "segment", "3 segment"},
		{7.47e-9, "s/byte", "7.47 ns/byte"},
		{1.5e6, "byte", "1.5 Mbyte"},
		{1e30, "bit/s", "1000000000000000 Pbit/s"},
		{1e-15, "s", "0.001 ps"},
		{1234, "", "1.23 k"},
		{12, "", "12"},
		{math.NaN(), "s", "–"},
	} {
		if got := Format(tt.value, tt.unit); got != tt.want {
			t.Errorf("Format(%g, %q) = %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, tt := range []struct {
		name string
		want Metric
		ok   bool
	}{
		{"goodput", Metric{Name: "goodput", Unit: "bit/s", Better: HigherBetter, Kind: KindRate, Order: 10}, true},
		{"latency_p999", Metric{
			Name: "latency_p999", Unit: "s", Better: LowerBetter, Kind: KindQuantile, Quantile: 0.999,
			Merged: true, Order: 250,
		}, true},
		{"latency_p9999", Metric{
			Name: "latency_p9999", Unit: "s", Better: LowerBetter, Kind: KindQuantile, Quantile: 0.9999, Merged: true,
			Order: 200,
		}, true},
		{"oneway_latency_p50", Metric{
			Name: "oneway_latency_p50", Unit: "s", Better: LowerBetter, Kind: KindQuantile, Quantile: 0.5, Merged: true,
			Order: 280,
		}, true},
		{"latency_p", Metric{Name: "latency_p", Unit: "", Better: Neither, Kind: KindUnknown}, false},
		{"latency_p0", Metric{Name: "latency_p0", Unit: "", Better: Neither, Kind: KindUnknown}, false},
		{"latency_px", Metric{Name: "latency_px", Unit: "", Better: Neither, Kind: KindUnknown}, false},
		{"hops", Metric{Name: "hops", Unit: "", Better: Neither, Kind: KindUnknown}, false},
	} {
		got, ok := Version2().Lookup(tt.name)
		if d := cmp.Diff(tt.want, got); d != "" || ok != tt.ok {
			t.Error(tt.name, ok, d)
		}
	}
	seen := map[string]bool{}
	for _, m := range Version2().All() {
		if seen[m.Name] || m.Unit == "" || m.Better == "" || (m.Kind == KindQuantile) != (m.Quantile > 0) {
			t.Errorf("%+v is listed twice or incomplete", m)
		}
		seen[m.Name] = true
	}
}
