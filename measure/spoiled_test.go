package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// spoiling makes a run of one group: the baseline, its twin, "slow" (20 % longer) and "equal". A hit takes the CPU for
// a third of a trial, which then takes up to twice as long.
type spoiling struct {
	generations, blocks int
	hit                 func(r *rand.Rand, cell string) bool
	wait                func(r *rand.Rand, cell string) float64 // without a hit; nil: next to nothing
}

func (s spoiling) run(r *rand.Rand) (Run, *Log) {
	run := Run{V: Version, Design: Design{Precision: 0.02, Spoiled: 0.05}, Cells: []Cell{
		{ID: "base", Group: "g", Primary: "latency_p50"},
		{ID: "base#2", Baseline: "base", Twin: true, Group: "g", Primary: "latency_p50"},
		{ID: "slow", Baseline: "base", Group: "g", Primary: "latency_p50"},
		{ID: "equal", Baseline: "base", Group: "g", Primary: "latency_p50"},
	}}
	log := &Log{}
	for g := range s.generations {
		for b := range s.blocks {
			drift := 0.3 * r.NormFloat64()
			for _, i := range r.Perm(len(run.Cells)) {
				id := run.Cells[i].ID
				x, wait := drift+0.05*r.NormFloat64(), 0.001*r.Float64()
				if s.wait != nil {
					wait = s.wait(r, id)
				}
				if id == "slow" {
					x += math.Log(1.2)
				}
				if s.hit(r, id) {
					x, wait = x+0.7*r.Float64(), wait+0.3
				}
				log.Trials = append(log.Trials, Trial{
					Generation: g + 1, Block: g*s.blocks + b, Cell: id, Duration: 0.05,
					Metrics: map[string]float64{"latency_p50": 1e-5 * math.Exp(x), WaitMetric: wait},
				})
			}
		}
	}
	return run, log
}

func never(*rand.Rand, string) bool { return false }

func hits(share float64) func(*rand.Rand, string) bool {
	return func(r *rand.Rand, _ string) bool { return r.Float64() < share }
}

func hitsOf(cell string, share float64) func(*rand.Rand, string) bool {
	return func(r *rand.Rand, id string) bool { return id == cell && r.Float64() < share }
}

// said returns the texts of the warnings, with their cells.
func said(a Analysis) string {
	var texts []string
	for _, w := range a.Warnings {
		texts = append(texts, w.Cell+": "+w.Text)
	}
	return strings.Join(texts, "\n")
}

// same compares what two analyses found, bit for bit.
func same(x, y Analysis) string {
	return cmp.Diff(x.Rows, y.Rows, cmpopts.EquateNaNs()) + cmp.Diff(x.Floors, y.Floors, cmpopts.EquateNaNs())
}

// kept returns the analysis of a run that did not ask for blocks to be set aside.
func kept(run Run, log *Log) Analysis {
	run.Design.Spoiled = 0
	return Analyze(run, log)
}

// TestSpoiledRandom shows that random hits widen intervals less with the rule than without it. In both cases the
// intervals still hold the truth as often as they claim.
func TestSpoiledRandom(t *testing.T) {
	runs := times(t, 1000)
	for _, w := range []struct {
		name string
		hit  func(*rand.Rand, string) bool
	}{
		{"each trial with 2 %", hits(0.02)},
		{"each trial with 5 %", hits(0.05)},
		{"in bursts of trials", func() func(*rand.Rand, string) bool {
			left := 0
			return func(r *rand.Rand, _ string) bool {
				if left > 0 {
					left--
					return true
				}
				if r.Float64() < 0.02 {
					left = 2
				}
				return left > 0
			}
		}()},
	} {
		r := rand.New(rand.NewPCG(11, 12))
		covered, before, half, wide, aside, uneven := 0, 0, 0.0, 0.0, 0, 0
		for range runs {
			run, log := spoiling{generations: 10, blocks: 8, hit: w.hit}.run(r)
			a, b := Analyze(run, log), kept(run, log)
			x, y := row(t, a, "slow", "latency_p50"), row(t, b, "slow", "latency_p50")
			if x.Estimate.Lo <= 1.2 && 1.2 <= x.Estimate.Hi {
				covered++
			}
			if y.Estimate.Lo <= 1.2 && 1.2 <= y.Estimate.Hi {
				before++
			}
			half, wide = half+x.Estimate.HalfWidth(), wide+y.Estimate.HalfWidth()
			if x.Blocks+a.Spoiled[0].Aside != 80 || x.Generations != 10 {
				t.Fatalf("%d blocks and %d set aside of 80, %d generations", x.Blocks, a.Spoiled[0].Aside, x.Generations)
			}
			aside += a.Spoiled[0].Aside
			if a.Spoiled[0].Uneven() {
				uneven++
			}
		}
		t.Logf("| %s | set aside %.1f %% | coverage %.3f, without %.3f | half-width %.2f %%, without %.2f %% | said to be "+
			"uneven %.3f |", w.name, 100*share(aside, 80*runs), share(covered, runs), share(before, runs),
			100*half/float64(runs), 100*wide/float64(runs), share(uneven, runs))
		if _, hi := ClopperPearson(covered, runs, 0.95); hi < 1-Level {
			t.Errorf("%s: %d of %d covered", w.name, covered, runs)
		}
		if half > wide {
			t.Errorf("%s: half-widths grew from %v to %v", w.name, wide, half)
		}
		if lo, _ := ClopperPearson(uneven, runs, 0.95); lo > Level {
			t.Errorf("%s: %d of %d runs blame a stack", w.name, uneven, runs)
		}
	}
}

// TestSpoiledUntouched lists runs whose analysis the rule does not change, bit for bit.
func TestSpoiledUntouched(t *testing.T) {
	for _, tt := range []struct {
		name   string
		of     spoiling
		change func(*Run, *Log)
		says   string // "": nothing
	}{
		{name: "no hits", of: spoiling{hit: never}},
		{
			name: "records that do not say how long threads waited", of: spoiling{hit: hits(0.1)},
			change: func(_ *Run, log *Log) {
				for i := range log.Trials {
					delete(log.Trials[i].Metrics, WaitMetric)
				}
			},
		},
		{
			name: "threads that share CPUs", of: spoiling{hit: hits(0.1)},
			change: func(run *Run, _ *Log) {
				for i := range run.Cells {
					run.Cells[i].SharesCPUs = true
				}
			},
		},
		{
			name: "all wait alike", of: spoiling{
				hit:  never,
				wait: func(r *rand.Rand, _ string) float64 { return 0.3 + 0.02*r.Float64() },
			},
		},
		{
			name: "waits for ksoftirqd and a switch", of: spoiling{hit: hitsOf("slow", 0.5)},
			change: func(_ *Run, log *Log) {
				for i, x := range log.Trials {
					if x.Cell == "slow" {
						log.Trials[i].Metrics[waitSoftirqd], log.Trials[i].Metrics[waitPrograms] = 0.1, 0.2
					}
				}
			},
		},
		{name: "a busy machine", of: spoiling{hit: hits(0.3)}, says: ": other programs took the CPU from trials"},
		{
			name: "hits of one stack alone", of: spoiling{hit: hitsOf("slow", 0.15)},
			says: "slow: something took the CPU from its threads more often",
		},
		{
			name: "hits of one stack in nearly all trials", of: spoiling{hit: hitsOf("slow", 0.95)},
			says: "slow: something took the CPU from its threads more often",
		},
		{
			name: "hits of the baseline alone", of: spoiling{hit: hitsOf("base", 0.15)},
			says: "base: something took the CPU from its threads more often",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.of.generations, tt.of.blocks = 10, 8
			run, log := tt.of.run(rand.New(rand.NewPCG(5, 6)))
			if tt.change != nil {
				tt.change(&run, log)
			}
			a := Analyze(run, log)
			if d := same(kept(run, log), a); d != "" {
				t.Error(d)
			}
			if text := said(a); (text == "") != (tt.says == "") || !strings.HasPrefix(text, tt.says) ||
				strings.Count(text, "\n") > 0 {
				t.Errorf("it says %q, want %q", text, tt.says)
			}
		})
	}
}

// TestSpoiledOneStack shows how often the analysis notices a program that runs only beside one stack, and the effect on
// that stack's ratio if it does not.
func TestSpoiledOneStack(t *testing.T) {
	runs := times(t, 200)
	for _, tt := range []struct {
		share float64
		least float64 // of the runs that notice it
	}{{0.05, 0}, {0.1, 0.8}, {0.2, 0.99}, {0.5, 1}, {1, 1}} {
		r := rand.New(rand.NewPCG(21, 22))
		noticed := 0
		for range runs {
			run, log := spoiling{generations: 10, blocks: 8, hit: hitsOf("slow", tt.share)}.run(r)
			a := Analyze(run, log)
			if !a.Spoiled[0].Uneven() {
				continue
			}
			noticed++
			if d := same(kept(run, log), a); d != "" {
				t.Fatal(d)
			}
		}
		t.Logf("in %g %% of its trials: noticed in %.3f of runs", 100*tt.share, share(noticed, runs))
		if _, hi := ClopperPearson(noticed, runs, 0.95); hi < tt.least {
			t.Errorf("in %g %% of its trials: noticed in %d of %d runs", 100*tt.share, noticed, runs)
		}
	}
}

// TestSpoiledBlocks checks which blocks are set aside.
func TestSpoiledBlocks(t *testing.T) {
	bad := map[string]bool{"1/1": true, "3/9": true, "3/11": true, "4/12": true, "4/13": true, "4/14": true}
	run, log := spoiling{generations: 10, blocks: 4, hit: never}.run(rand.New(rand.NewPCG(1, 2)))
	run.Cells = append(run.Cells, Cell{ID: "other", Group: "h", Primary: "latency_p50"})
	for g := range 10 {
		for b := range 4 {
			log.Trials = append(log.Trials, Trial{
				Generation: g + 1, Block: 4*g + b, Cell: "other", Metrics: map[string]float64{"latency_p50": 1, WaitMetric: 0},
			})
			steal := 0.01
			if g == 5 && b == 0 {
				steal = 0.2
			}
			log.Blocks = append(log.Blocks, BlockFacts{
				Generation: g + 1, Block: 4*g + b, Duration: 0.5, CPU: map[string]float64{"steal": steal},
			})
		}
	}
	cells := []string{"base", "equal", "slow", "base#2"} // by turns: no cell has more than others
	n := 0
	for i := range log.Trials {
		x := &log.Trials[i]
		if at := fmt.Sprintf("%d/%d", x.Generation, x.Block); bad[at] && x.Cell == cells[x.Block%4] {
			x.Metrics[WaitMetric] = 0.2
			n++
		}
	}
	if n != len(bad) {
		t.Fatalf("%d trials are hit, want %d", n, len(bad))
	}
	a := Analyze(run, log)
	got := a.Spoiled
	for i := range got {
		for j := range got[i].Cells {
			got[i].Cells[j].P = 0
		}
	}
	want := []Spoiled{
		{Group: "g", Blocks: 40, Hit: 7, Aside: 4, Cells: []SpoiledCell{
			{Cell: "base", Trials: 40, Spoiled: 1},
			{Cell: "base#2", Trials: 40, Spoiled: 1},
			{Cell: "slow", Trials: 40, Spoiled: 1},
			{Cell: "equal", Trials: 40, Spoiled: 3},
		}},
		{Group: "h", Blocks: 40, Hit: 1, Aside: 1, Cells: []SpoiledCell{{Cell: "other", Trials: 40}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// the fourth generation would lose more than half of its blocks and keeps them all
	if r := row(t, a, "slow", "latency_p50"); r.Blocks != 36 || r.Generations != 10 {
		t.Errorf("%d blocks, %d generations", r.Blocks, r.Generations)
	}
	if r := row(t, a, "other", "latency_p50"); r.Blocks != 39 {
		t.Errorf("%d blocks of the other group", r.Blocks)
	}
	if text := said(a); text != ": 6.25 % of the blocks were set aside: other programs took the CPU from a trial, for "+
		"longer than usual by more than 5 % of it; stop them, or give the run more time (--time)" {
		t.Error(text)
	}
	count := map[string]int{}
	for i := range log.Trials {
		spoiled, judged, aside := a.SpoiledTrial(&log.Trials[i])
		count[fmt.Sprintf("spoiled %v, judged %v, aside %v", spoiled, judged, aside)]++
	}
	if d := cmp.Diff(map[string]int{
		"spoiled true, judged true, aside true": 3, "spoiled true, judged true, aside false": 3,
		"spoiled false, judged true, aside true": 14, "spoiled false, judged true, aside false": 180,
	}, count); d != "" {
		t.Error(d)
	}
}

// TestAtLeast compares with a binomial distribution and with counting all cases.
func TestAtLeast(t *testing.T) {
	if got, want := atLeast([]float64{0.25, 0.25, 0.25}, 3), 1.0/64; math.Abs(got-want) > 1e-15 {
		t.Errorf("all of three: %v, want %v", got, want)
	}
	chance := []float64{0.1, 0.5, 1, 0.25, 0.9}
	for k := range len(chance) + 2 {
		want := 0.0
		for set := range 1 << len(chance) {
			p, n := 1.0, 0
			for i, c := range chance {
				if set>>i&1 == 1 {
					p, n = p*c, n+1
				} else {
					p *= 1 - c
				}
			}
			if n >= k {
				want += p
			}
		}
		if got := atLeast(chance, k); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d or more: %v, want %v", k, got, want)
		}
	}
}
