package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The components of invented generations come out on average, whatever the numbers of blocks.
func TestComponents(t *testing.T) {
	for _, tt := range []struct {
		name              string
		generation, block float64 // standard deviations
		blocks            func(g int) int
		differs           bool
		within            float64 // of the mean of many runs, as a share of Block
	}{
		{"equal generations", 0, 0.1, func(int) int { return 4 }, false, 0.12},
		{"generations differ", 0.05, 0.1, func(int) int { return 4 }, false, 0.12},
		{"few blocks", 0.05, 0.1, func(int) int { return 2 }, false, 0.12},
		{"many blocks", 0.1, 0.1, func(int) int { return 16 }, false, 0.12},
		{"numbers of blocks differ", 0.05, 0.1, func(g int) int { return 2 + 2*(g%3) }, false, 0.12},
		{"means", 0.05, 0.1, func(g int) int { return 2 + 2*(g%3) }, true, 0.05},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		var mean Components
		const runs, generations = 2000, 10
		for range runs {
			gens := make([][]float64, generations)
			for g := range gens {
				at := tt.generation * r.NormFloat64()
				for range tt.blocks(g) {
					gens[g] = append(gens[g], at+tt.block*r.NormFloat64())
				}
			}
			c := estimateComponents(gens, tt.differs)
			mean.Generation += c.Generation / runs
			mean.Block += c.Block / runs
		}
		t.Logf("%s: %.5f %.5f", tt.name, mean.Generation, mean.Block)
		block := tt.block * tt.block
		if math.Abs(mean.Block-block) > tt.within*block ||
			math.Abs(mean.Generation-tt.generation*tt.generation) > tt.within*block/2 {
			t.Errorf("%s: %+v", tt.name, mean)
		}
	}
}

// A stolen millisecond hardly counts, as in a center. Without two generations, or two blocks in one, nothing is known.
func TestComponentsRobust(t *testing.T) {
	gens := [][]float64{{0, 0.1, 0.2, 0.1}, {0.1, 0, 0.1, 0.2}, {0.2, 0.1, 0, 0.1}}
	usual := estimateComponents(gens, false)
	gens[1][3] = 5
	if hit := estimateComponents(gens, false); hit.Block > 3*usual.Block {
		t.Errorf("with an outlier %+v, without %+v", hit, usual)
	}
	gens[1][3] = math.Inf(1)
	if hit := estimateComponents(gens, false); hit.Block > 3*usual.Block {
		t.Errorf("with an infinite one %+v, without %+v", hit, usual)
	}
	nan := math.NaN()
	for _, gens := range [][][]float64{
		nil,
		{{1, 2}},
		{{1}, {2}},
		{{1, 2}, {nan, nan}},
		{{1, 2}, {math.Inf(1)}},
		{{1, 1}, {1, 1}},
	} {
		if c := estimateComponents(gens, false); c.known() {
			t.Errorf("%v: %+v", gens, c)
		}
	}
}

func TestBestBlocks(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tt := range []struct{ cost, ratio, want float64 }{
		{4, 1, 2}, {1, 0.01, 10}, {1, 0, inf}, {1, -0.2, inf}, {1, inf, 0}, {0, 1, nan}, {nan, 1, nan}, {1, nan, nan},
	} {
		if got := BestBlocks(tt.cost, tt.ratio); !(math.Abs(got-tt.want) < 1e-12) && !(got == tt.want) &&
			!(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("cost %g, ratio %g: %g, want %g", tt.cost, tt.ratio, got, tt.want)
		}
	}
	generation, block := Costs([]Generation{
		{Overhead: 9, Measured: 4, Blocks: 4},
		{Overhead: 1, Measured: 8, Blocks: 4},
		{Overhead: 2, Measured: 6, Blocks: 2},
		{Measured: 1, Blocks: 1},
		{Overhead: 1},
	})
	if generation != 2 || block != 2 {
		t.Errorf("a generation takes %g s, a block %g s", generation, block)
	}
	if generation, block = Costs(nil); !math.IsNaN(generation) || !math.IsNaN(block) {
		t.Errorf("no generation takes %g s, a block %g s", generation, block)
	}
}

// TestTwoStages compares the rule of [LookPlan] with that of runs before November 2026, whose generations after the
// second look had twice, four times … the blocks. Both have the same wall time, in blocks. docs/method.md has its
// table:
//
//	NETTOLL_SIMULATIONS=10 go test ./measure -run TestTwoStages -v
func TestTwoStages(t *testing.T) {
	runs := times(t, 400)
	t.Logf("%d runs each: cost of a generation in blocks, wall time in blocks, sd between generations over sd of blocks, "+
		"half-width and rms error of doubling, then of the rule; mean generations of both", runs)
	for _, cost := range []float64{0.5, 3} {
		for _, wall := range []float64{60, 240, 960} {
			for _, ratio := range []float64{0, 0.1, 0.3, 1} {
				var half, rms, generations [2]float64
				for rule := range 2 {
					r := rand.New(rand.NewPCG(uint64(wall), uint64(100*ratio)))
					for range runs {
						gens := twoStages(r, rule == 1, cost, wall, 0.05*ratio, 0.05)
						e, err := EstimateRatio(withoutCut(gens))
						if err != nil {
							t.Fatal(err)
						}
						half[rule] += e.HalfWidth() / float64(runs)
						rms[rule] += e.Log * e.Log / float64(runs)
						generations[rule] += float64(e.Generations) / float64(runs)
					}
					rms[rule] = math.Sqrt(rms[rule])
				}
				t.Logf("| %g | %g | %g | ±%.2f %% (%.2f %%) | ±%.2f %% (%.2f %%) | %.0f, %.0f |", cost, wall, ratio, 100*half[0],
					100*rms[0], 100*half[1], 100*rms[1], generations[0], generations[1])
				if worst := 1.15; half[1] > worst*half[0] {
					t.Errorf("cost %g, wall time %g, ratio %g: half-width %g, by doubling %g", cost, wall, ratio, half[1], half[0])
				}
			}
		}
	}
}

// twoStages returns the log ratios of a run with this wall time, in blocks, by the rule of [LookPlan] or by doubling.
func twoStages(r *rand.Rand, rule bool, cost, wall, generation, block float64) [][]float64 {
	plan := NewLookPlan(0, 0)
	var gens [][]float64
	for {
		wall -= cost
		n := min(plan.Blocks, int(wall))
		if n < 1 {
			return gens
		}
		wall -= float64(n)
		x, at := make([]float64, n), generation*r.NormFloat64()
		for b := range x {
			x[b] = at + block*r.NormFloat64()
		}
		gens = append(gens, x)
		if plan.Done(n) {
			best := math.NaN()
			if rule {
				best = choice(cost, gens)
			}
			plan.Choose(best)
		}
	}
}

// choice returns the best number of blocks, as a run finds it after these generations of its cells.
func choice(cost float64, cells ...[][]float64) float64 {
	var a Analysis
	for _, gens := range cells {
		a.Rows = append(a.Rows, Row{Cell: &Cell{}, Components: estimateComponents(withoutCut(gens), false)})
	}
	ratio, _ := a.VarianceRatio(func(string) bool { return true })
	return BestBlocks(cost, ratio)
}
