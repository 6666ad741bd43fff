package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// scene is a measured group of cells: each block has all of them in a random order, one right after another.
type scene struct {
	generations, blocks, cells int
	trial, block               float64 // s from start to start
}

// usual is a group of a default run.
func usual() scene { return scene{generations: 10, blocks: 4, cells: 5, trial: 0.04, block: 1.6} }

// measured makes the trials of a scene. noise makes the noise of a generation: a function of time that is called with
// ever later times.
func (s scene) measured(r *rand.Rand, noise func(*rand.Rand) func(at float64) float64) [][]Moment {
	gens := make([][]Moment, s.generations)
	for g := range gens {
		at, x := 1000*float64(g), noise(r)
		cells := make([]float64, s.cells) // every lab is built anew
		for c := range cells {
			cells[c] = 0.1 * r.NormFloat64()
		}
		for b := range s.blocks {
			for i, c := range r.Perm(s.cells) {
				start := at + s.block*float64(b) + s.trial*float64(i)
				gens[g] = append(gens[g], Moment{c, start, -11 + float64(c) + cells[c] + x(start)})
			}
		}
	}
	return gens
}

// forgetting is an Ornstein–Uhlenbeck process, whose correlation is exp(−h/memory), with white noise of a share of the
// variance.
func forgetting(memory, white float64) func(*rand.Rand) func(float64) float64 {
	return func(r *rand.Rand) func(float64) float64 {
		x, last := r.NormFloat64(), math.Inf(-1)
		return func(at float64) float64 {
			keep := math.Exp((last - at) / memory)
			x, last = keep*x+math.Sqrt(1-keep*keep)*r.NormFloat64(), at
			return 0.05 * (math.Sqrt(1-white)*x + math.Sqrt(white)*r.NormFloat64())
		}
	}
}

// drifting is a machine that becomes slower by 20 % a second, with little white noise.
func drifting(r *rand.Rand) func(float64) float64 {
	return func(at float64) float64 { return 0.2*at + 0.01*r.NormFloat64() }
}

// stalled is a noise in which one trial in 12 takes three to seven times as long.
func stalled(noise func(*rand.Rand) func(float64) float64) func(*rand.Rand) func(float64) float64 {
	return func(r *rand.Rand) func(float64) float64 {
		f := noise(r)
		return func(at float64) float64 {
			x := f(at)
			if r.IntN(12) == 0 {
				x += 1 + r.Float64()
			}
			return x
		}
	}
}

func TestMemory(t *testing.T) {
	white := forgetting(1e-9, 1)
	// trials that follow each other without a pause: 0.1 s is 2.5 of them, 0.4 s ten
	long := scene{generations: 10, blocks: 16, cells: 20, trial: 0.04, block: 0.8}
	for _, tt := range []struct {
		name   string
		scene  scene
		noise  func(*rand.Rand) func(float64) float64
		lo, hi float64 // of the middle of many estimates
		holds  float64 // the share of intervals that hold the memory, at least
		memory float64
	}{
		{"100 ms", usual(), forgetting(0.1, 0), 0.08, 0.12, 0.9, 0.1},
		{"100 ms, 5 generations", scene{5, 4, 5, 0.04, 1.6}, forgetting(0.1, 0), 0.07, 0.13, 0.8, 0.1},
		{"100 ms, 3 blocks a generation", scene{10, 3, 5, 0.04, 1.6}, forgetting(0.1, 0), 0.07, 0.13, 0.85, 0.1},
		{"100 ms, long group", long, forgetting(0.1, 0), 0.085, 0.105, 0.8, 0.1},
		{"400 ms, long group", long, forgetting(0.4, 0), 0.3, 0.42, 0.5, 0.4},
		// exp(−h/0.1) = 1/(0.8 e)
		{"100 ms, a fifth of it white", long, forgetting(0.1, 0.2), 0.06, 0.085, 0.8, 0.0777},
		{"100 ms, hidden by stalls", usual(), stalled(forgetting(0.1, 0)), 0, 0, 0, 0.1},
		{"white", usual(), white, 0, 0, 0.95, 0},
		{"white, long group", long, white, 0, 0, 0.95, 0},
		{"50 ms in trials of 100", scene{10, 4, 5, 0.1, 1.6}, forgetting(0.05, 0), 0, 0, 0.95, 0.05},
		// what is slower than a generation is part of its centers: a memory is at most a fifth of a generation, here
		// 1.6 s
		{"forgets nothing in a generation", scene{10, 8, 5, 0.04, 0.2}, forgetting(100, 0), 0.2, 0.32, 0, 100},
		// For a line as long as the generation, 12.8 s, differences of any two are triangular; their mean root is 8/15.
		{"drift", long, drifting, 2.6, 3, 0.9, 64. / 225 * math.Sqrt(1-1/math.E) * 12.8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const times = 60
			var found []float64
			held := 0
			for i := range times {
				m := EstimateMemory(tt.scene.measured(rand.New(rand.NewPCG(uint64(i), 5)), tt.noise))
				found = append(found, m.Seconds)
				if m.Lo <= tt.memory && tt.memory <= m.Hi {
					held++
				}
				if !(m.Lo <= m.Seconds && m.Seconds <= m.Hi) {
					t.Errorf("%v is not between %v and %v", m.Seconds, m.Lo, m.Hi)
				}
				for j, l := range m.Lags {
					if l.Pairs < leastPairs || l.From > l.At+1e-4 || l.At > l.To+1e-4 || j > 0 && l.From < m.Lags[j-1].To {
						t.Errorf("lag %d: %+v", j, l)
					}
				}
			}
			if x := Median(found); x < tt.lo || x > tt.hi {
				t.Errorf("the middle of the estimates is %v, want %v to %v: %v", x, tt.lo, tt.hi, found)
			}
			if share(held, times) < tt.holds {
				t.Errorf("%d of %d intervals hold %v", held, times, tt.memory)
			}
		})
	}
}

// A machine whose noise differs between generations does not have a longer memory because of that.
func TestMemoryOfUnequalGenerations(t *testing.T) {
	s := scene{generations: 30, blocks: 8, cells: 8, trial: 0.04, block: 1.6}
	m := EstimateMemory(s.measured(rand.New(rand.NewPCG(1, 5)), func(r *rand.Rand) func(float64) float64 {
		sd := math.Exp(r.NormFloat64())
		return func(float64) float64 { return sd * r.NormFloat64() }
	}))
	for _, l := range m.Lags {
		if l.Pairs > 500 && math.Abs(l.Correlation) > 0.1 {
			t.Errorf("correlation of white noise: %+v", l)
		}
	}
}

func TestMemoryUnknown(t *testing.T) {
	random := func() *rand.Rand { return rand.New(rand.NewPCG(1, 5)) }
	still := usual().measured(random(), func(*rand.Rand) func(float64) float64 {
		return func(float64) float64 { return 0 }
	})
	for _, g := range still {
		for i := range g {
			g[i].Log = -11
		}
	}
	for _, tt := range []struct {
		name        string
		gens        [][]Moment
		generations int
	}{
		{"nothing", nil, 0},
		{"no trial in a generation", [][]Moment{{}, nil}, 0},
		{"4 generations", scene{4, 8, 5, 0.04, 1.6}.measured(random(), forgetting(0.1, 0)), 4},
		{"2 blocks a generation", scene{20, 2, 5, 0.04, 1.6}.measured(random(), forgetting(0.1, 0)), 0},
		{"a cell alone", scene{10, 8, 1, 0.04, 1.6}.measured(random(), forgetting(0.1, 0)), 10},
		{"few pairs", scene{5, 3, 2, 0.04, 1.6}.measured(random(), forgetting(0.1, 0)), 5},
		{"no noise", still, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := EstimateMemory(tt.gens)
			if !math.IsNaN(m.Seconds) || !math.IsNaN(m.Lo) || !math.IsNaN(m.Hi) || m.Lags != nil {
				t.Errorf("%+v", m)
			}
			if m.Generations != tt.generations {
				t.Errorf("%d generations, want %d", m.Generations, tt.generations)
			}
		})
	}
}

// A run has a memory for each group, of the trials that are used, and the distance of cells from their baselines.
func TestMemories(t *testing.T) {
	run := Run{Design: Design{TrialSeconds: map[string]float64{}}}
	for _, c := range []Cell{
		{ID: "base", Group: "g", Primary: "latency_p50"},
		{ID: "twin", Group: "g", Primary: "latency_p50", Baseline: "base", Twin: true},
		{ID: "x", Group: "g", Primary: "latency_p50", Baseline: "base"},
		{ID: "y", Group: "g", Primary: "latency_p50", Baseline: "base"},
		{ID: "probed", Group: "g|+p", Primary: "latency_p50", Probe: "p"},
		{ID: "alone", Group: "a|alone", Primary: "latency_p50", Alone: "x"},
		{ID: "lossy", Group: "l", Primary: "loss"},
	} {
		run.Cells = append(run.Cells, c)
		run.Design.TrialSeconds[c.ID] = 0.04
	}
	log := &Log{}
	s := scene{generations: 6, blocks: 8, cells: 4, trial: 0.04, block: 0.5}
	for g, list := range s.measured(rand.New(rand.NewPCG(1, 5)), forgetting(0.1, 0)) {
		for i, m := range list {
			trial := Trial{
				Generation: g + 1, Block: g*s.blocks + i/s.cells, Cell: run.Cells[m.Cell].ID, Start: m.Start,
				Metrics: map[string]float64{"latency_p50": math.Exp(m.Log)},
			}
			if i%50 == 7 {
				trial.Failed, trial.Metrics["latency_p50"] = "it died", 1e9
			}
			log.Trials = append(log.Trials, trial)
		}
	}
	list := Analyze(run, log).Memories()
	if len(list) != 1 || list[0].Group != "g" {
		t.Fatalf("%+v", list)
	}
	m := list[0]
	if m.Generations != 6 || m.Trials != 6*8*4-6 || !(m.Seconds > 0.05 && m.Seconds < 0.2) {
		t.Errorf("%+v", m)
	}
	if m.Trial != 0.04 || math.Abs(m.Near-0.04) > 1e-9 || math.Abs(m.Far-0.08) > 1e-9 {
		t.Errorf("trials of %v s, %v to %v s from a baseline", m.Trial, m.Near, m.Far)
	}
}

// 100,000 trials of one group.
func BenchmarkMemory(b *testing.B) {
	s := scene{60, 334, 5, 0.04, 1.6}
	gens := s.measured(rand.New(rand.NewPCG(1, 5)), forgetting(0.1, 0))
	for b.Loop() {
		EstimateMemory(gens)
	}
}
