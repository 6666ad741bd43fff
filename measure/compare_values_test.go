package measure

import (
	"math"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// twoStacks makes a run of a baseline, its twin and two stacks, whose latencies differ from generation to generation
// and from block to block. All latencies are multiplied by all, and those of the first stack also by one.
func twoStacks(r *rand.Rand, generations int, all, one float64) Side {
	m := described("latency_p50")
	run := Run{Design: Design{Precision: 0.02}, Metrics: []Metric{m}}
	for _, id := range []string{"host", "host#2", "bridge", "nat"} {
		c := Cell{ID: id, Group: "g", Primary: "latency_p50", Twin: id == "host#2", Pairs: 1}
		if id != "host" {
			c.Baseline = "host"
		}
		run.Cells = append(run.Cells, c)
	}
	var log Log
	const blocks = 4
	for g := range generations {
		levels := make([]float64, len(run.Cells))
		for i := range levels {
			levels[i] = 0.006 * r.NormFloat64()
		}
		for b := range blocks {
			block := 0.02 * r.NormFloat64()
			for i, c := range run.Cells {
				x := 10e-6 * all * math.Exp(levels[i]+block+0.005*r.NormFloat64())
				switch c.ID {
				case "bridge":
					x *= 1.1 * one
				case "nat":
					x *= 1.3
				}
				log.Trials = append(log.Trials, Trial{
					Generation: g + 1, Block: g*blocks + b, Cell: c.ID, Metrics: map[string]float64{"latency_p50": x},
				})
			}
		}
	}
	return Side{Run: run, Analysis: Analyze(run, &log)}
}

// Ratios do not show a change that all values share. Values show it, and so does the baseline.
func TestCompareValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 14))
	pairs := times(t, 20)
	for range pairs {
		old, now := twoStacks(r, 8, 1, 1), twoStacks(r, 8, 1.4, 1)
		for _, c := range Compare(old, now) {
			switch {
			case c.Cell.ID == "host" && (c.Shift != Slower || !c.Worse() || c.Verdict != IsBaseline || c.ShiftLo < 1.2 ||
				c.ShiftHi > 1.6 || c.ShiftLo > c.Own.Estimate.Ratio || c.HasRatio):
				t.Errorf("the baseline: %+v", c)
			case c.Cell.ID != "host" && (c.Shift != "" || Differs(c.Verdict)):
				t.Errorf("%s: %s, %s", c.Cell.ID, c.Verdict, c.Shift)
			}
		}
		want := map[string]Verdict{
			"host latency_p50": Slower, "host#2 latency_p50": IsTwin, "bridge latency_p50": Slower,
			"nat latency_p50": Slower,
		}
		list := Comparing{Absolute: true}.Compare(old, now)[0]
		if d := gocmp.Diff(want, words(list)); d != "" {
			t.Error(d)
		}
		for _, c := range list {
			if math.Abs(c.Estimate.Log-math.Log(1.4)) > 0.05 || math.Abs(c.Drift()/c.Estimate.Ratio-1) > 1e-9 {
				t.Errorf("%s: ratio %v, values %v, want 1.4", c.Cell.ID, c.Estimate.Ratio, c.Drift())
			}
		}
	}
}

// TestEqualValues compares the values of equal runs: at most 5 % of pairs may show a difference, in values or in
// baselines.
func TestEqualValues(t *testing.T) {
	pairs := times(t, 400)
	for _, generations := range []int{5, 8} {
		r := rand.New(rand.NewPCG(uint64(generations), 15))
		values, shifted, equal := 0, 0, 0
		for range pairs {
			old, now := twoStacks(r, generations, 1, 1), twoStacks(r, generations, 1, 1)
			differs := false
			for _, c := range (Comparing{Absolute: true}).Compare(old, now)[0] {
				differs = differs || Differs(c.Verdict)
				equal += one(c.Verdict == NoDifference)
			}
			values += one(differs)
			for _, c := range Compare(old, now) {
				if c.Shift != "" {
					shifted++
				}
			}
		}
		t.Logf("%d generations: of %d pairs %d with a false difference of values, %d with a false shift; no difference in "+
			"%.2f of cells", generations, pairs, values, shifted, share(equal, 3*pairs))
		for what, n := range map[string]int{"difference": values, "shift": shifted} {
			if lo, _ := ClopperPearson(n, pairs, 0.95); lo > Level {
				t.Errorf("%d generations: %d of %d pairs of equal runs show a %s", generations, n, pairs, what)
			}
		}
	}
}

// driftingStacks makes two runs of a baseline and its twin, 8 generations each, whose values move together: by walk from
// each generation to the next one (and once more between the runs), and by lasting from run to run.
func driftingStacks(r *rand.Rand, walk, lasting, shift float64, loads [2]Load) [2]Side {
	const generations = 8
	var runs [2]Side
	level := 0.0
	for i := range runs {
		level += lasting*r.NormFloat64() + shift*float64(i)
		s := twoStacks(r, generations, 1, 1)
		run, log := s.Run, *s.Analysis.from.log
		for g := range generations {
			level += walk * r.NormFloat64()
			for k := range log.Trials {
				if t := &log.Trials[k]; t.Generation == g+1 {
					t.Metrics["latency_p50"] *= math.Exp(level)
				}
			}
		}
		for b := range 4 * generations {
			log.Blocks = append(log.Blocks, BlockFacts{
				Block: b, Duration: 1, Others: loads[i].Others, CPU: map[string]float64{"steal": loads[i].Stolen},
			})
		}
		runs[i] = Side{Run: run, Analysis: Analyze(run, &log)}
	}
	return runs
}

// TestEqualDrift compares equal runs on machines whose speed changes more slowly than a run can show: at most 5 % of
// pairs may show a shift of the baseline. Changes as large as those of issues must still be found.
func TestEqualDrift(t *testing.T) {
	pairs := times(t, 100)
	for _, tt := range []struct {
		name          string
		walk, lasting float64
		shift         float64
		loads         [2]Load
		most, least   float64 // share of pairs with a shift
		unsure        float64 // least share of pairs with a shift that the load may explain
	}{
		{name: "generations alike", lasting: 0.006, most: Level},
		{name: "runs differ as generations do", lasting: 0.012, most: Level},
		{name: "a machine that becomes slower and faster", walk: 0.012, most: Level},
		{name: "21 % slower", lasting: 0.012, shift: math.Log(26.6 / 20.9), most: 1, least: 0.95},
		{
			name: "21 % slower, and a little work on the machine", lasting: 0.012, shift: math.Log(26.6 / 20.9),
			loads: [2]Load{{Others: 0.02}, {Others: 0.04, Stolen: 0.01}}, most: 1, least: 0.95,
		},
		{
			name: "slower, since the machine is busy", shift: math.Log(1.4), loads: [2]Load{{}, {Others: 0.5, Stolen: 0.1}},
			unsure: 0.95,
		},
		{
			name: "slower, and a whole CPU is taken", shift: math.Log(4), loads: [2]Load{{}, {Others: 1.1}}, unsure: 0.95,
		},
		{
			name: "slower, although the machine was busy before", shift: math.Log(1.4), loads: [2]Load{{Others: 1.1}, {}},
			most: 1, least: 0.95,
		},
		{
			name: "faster, since the machine was busy", shift: -math.Log(1.4), loads: [2]Load{{Others: 1.1}, {}},
			unsure: 0.95,
		},
	} {
		r := rand.New(rand.NewPCG(19, 15))
		found, unsure, narrow := 0, 0, 0
		for range pairs {
			runs := driftingStacks(r, tt.walk, tt.lasting, tt.shift, tt.loads)
			for _, c := range Compare(runs[0], runs[1]) {
				if c.Cell.ID != "host" {
					continue
				}
				found, unsure = found+one(c.Shift != ""), unsure+one(c.Unsure != "")
				x := c.Own.Estimate.Interval(Level)
				narrow += one(math.Log(x.Lo) > c.Floor || math.Log(x.Hi) < -c.Floor)
				if c.Shift != "" && c.Unsure != "" || c.Unsure != "" && c.Worse() {
					t.Errorf("%s: %+v", tt.name, c)
				}
			}
		}
		t.Logf("| %-46s | shift %.3f (by generations alone %.3f) | unsure %.3f |", tt.name, share(found, pairs),
			share(narrow, pairs), share(unsure, pairs))
		lo, _ := ClopperPearson(found, pairs, 0.95)
		if lo > tt.most || share(found, pairs) < tt.least || share(unsure, pairs) < tt.unsure {
			t.Errorf("%s: %d of %d pairs show a shift, %d may be explained", tt.name, found, pairs, unsure)
		}
	}
}

// Other programs move ratios by the share that they use of the CPUs on which the run measures.
func TestMovesRatios(t *testing.T) {
	for _, tt := range []struct {
		others         float64
		all, measuring int
		want           float64
	}{
		{0.1, 2, 2, 0}, // 5 %
		{0.5, 2, 2, -math.Log(0.75)},
		{2, 2, 2, -math.Log(0.001)},
		{2, 4, 2, 0}, // they have CPUs of their own
		{3, 4, 2, -math.Log(0.5)},
		{3, 0, 0, 0},
	} {
		got := (Load{Others: tt.others, Stolen: 1}).movesRatios(tt.all, tt.measuring)
		if math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v of %d CPUs, %d of which measure: %v, want %v", tt.others, tt.all, tt.measuring, got, tt.want)
		}
	}
	for _, tt := range []struct {
		facts          map[string]any
		all, measuring int
	}{
		{map[string]any{"cpus": 8.0, "cpus_sources": []any{0.0, 1.0}, "cpus_sinks": []any{1.0, 2.0}}, 8, 3},
		{map[string]any{"cpus": 8, "cpus_sources_split": []int{0}, "cpus_sinks_split": []int{7}}, 8, 2},
		{map[string]any{"cpus": 8}, 8, 8},
		{nil, 0, 0},
	} {
		if all, measuring := (Run{Facts: tt.facts}).measuringCPUs(); all != tt.all || measuring != tt.measuring {
			t.Errorf("%v: %d CPUs, %d of which measure", tt.facts, all, measuring)
		}
	}
}

// A load bounds what it may have done to a value by the share of a CPU that it took.
func TestLoad(t *testing.T) {
	blocks := []BlockFacts{
		{Duration: 1, Others: 0.2, CPU: map[string]float64{"steal": 0.1}},
		{
			Duration: 3, Others: 0.4, CPU: map[string]float64{"steal": 0.5},
			Machines: []MachineLoad{{Machine: "b", Others: 2, CPU: map[string]float64{}}},
		},
	}
	if got := LoadOf(blocks); math.Abs(got.Others-1.5) > 1e-9 || got.Stolen != 0 {
		t.Errorf("%+v, want that of machine b", got)
	}
	if got := LoadOf(blocks[:1]); math.Abs(got.Others-0.2) > 1e-9 || math.Abs(got.Stolen-0.1) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got := LoadOf(nil); got != (Load{}) || got.IdleText() != "" {
		t.Errorf("%+v", got)
	}
	// Each block counts by its time, and waiting for a disk is idle, too.
	for want, cpus := range map[string][2]map[string]float64{
		"": {{}, nil},
		"20 %": {
			{"user": 1, "system": 0.5, "irq": 0.1, "idle": 0.4},
			{"user": 1, "nice": 0.2, "softirq": 0.2, "steal": 0.2, "idle": 0.3, "iowait": 0.1},
		},
		"75 %": {{"user": 0.5, "idle": 1.5}, {"user": 0.5, "idle": 1.5}},
		"0 %":  {{"user": 2}, {"user": 2, "idle": 0}},
	} {
		got := LoadOf([]BlockFacts{{Duration: 3, CPU: cpus[0]}, {Duration: 1, CPU: cpus[1]}}).IdleText()
		if got != want {
			t.Errorf("%v: %q of the time was idle, want %q", cpus, got, want)
		}
	}
	for _, tt := range []struct {
		metric string
		load   Load
		want   float64
	}{
		{"goodput", Load{}, 0},
		{"goodput", Load{Others: 0.3, Stolen: 0.2}, math.Ln2},
		{"latency_p50", Load{Others: 0.5}, math.Inf(1)},
		{"latency_p50", Load{Others: 0.4}, -math.Log(0.6)},
		{"latency_p99", Load{Others: 0.06}, math.Inf(1)},
		{"latency_p99", Load{Others: 0.02}, -math.Log(0.98)},
		{"goodput", Load{Others: 1}, math.Inf(1)},
		{"loss", Load{Others: 0.04}, 0},
		{"loss", Load{Others: 0.06}, math.Inf(1)},
	} {
		if got := tt.load.moves(described(tt.metric)); math.Abs(got-tt.want) > 1e-12 && got != tt.want {
			t.Errorf("%s under %+v: %v, want %v", tt.metric, tt.load, got, tt.want)
		}
	}
}

// The comparisons with several runs are one family.
func TestCompareSeveral(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 16))
	old, one, two := twoStacks(r, 8, 1, 1), twoStacks(r, 8, 1, 1.2), twoStacks(r, 8, 1, 1)
	lists := Comparing{}.Compare(old, one, two)
	if len(lists) != 2 {
		t.Fatalf("%d lists", len(lists))
	}
	got := []map[string]Verdict{words(lists[0]), words(lists[1])}
	if got[0]["bridge latency_p50"] != Slower || Differs(got[1]["bridge latency_p50"]) {
		t.Errorf("%v", got)
	}
	for i, c := range Compare(old, one) {
		many := lists[0][i]
		if c.Cell.ID != "bridge" {
			continue
		}
		if x := many.Estimate.Interval(drawn / 4); many.AdjLo != x.Lo || many.AdjLo >= c.AdjLo {
			t.Errorf("among four [%v, %v], among two [%v, %v]", many.AdjLo, many.AdjHi, c.AdjLo, c.AdjHi)
		}
	}
}

func TestExceed(t *testing.T) {
	change := func(point, stderr, floor float64, verdict Verdict, generations int) *Change {
		e := Effect{HasRatio: true, Estimate: Estimate{Log: point, StdErr: stderr, DF: 8}}
		c := &Change{
			Old: &Row{Generations: generations}, New: &Row{Generations: 9}, Row: Row{Verdict: verdict, Floor: floor},
		}
		if verdict != IsBaseline {
			c.Effect = e
			return c
		}
		own := func(log, stderr float64, generations int) Effect {
			e.Estimate = Estimate{Log: log, StdErr: stderr / math.Sqrt(2+float64(generations)), DF: 4}
			return e
		}
		c.Own, c.Old.Own, c.New.Own = e, own(0, stderr, generations), own(point, stderr, 9)
		return c
	}
	for _, tt := range []struct {
		name   string
		change *Change
		at     float64
		above  bool
		want   Finding
	}{
		{"beyond", change(0.1, 0.005, 0.01, Slower, 5), 0.05, true, Holds},
		{"a baseline", change(0.1, 0.005, 0.01, IsBaseline, 5), 0.05, true, Holds},
		{"a baseline", change(0.1, 0.03, 0.01, IsBaseline, 5), 0.05, true, CannotTell},
		{"the other side", change(0.1, 0.005, 0.01, Slower, 5), 0.05, false, DoesNotHold},
		{"below", change(0.1, 0.005, 0.01, Slower, 5), 0.15, true, DoesNotHold},
		{"fallen", change(-0.1, 0.005, 0.01, Slower, 5), -0.05, false, Holds},
		{"too near for its interval", change(0.1, 0.03, 0.01, Slower, 5), 0.05, true, CannotTell},
		{"too near for the floor", change(0.1, 0.005, 0.06, Slower, 5), 0.05, true, CannotTell},
		{"too few generations", change(0.1, 0.005, 0.01, TooFew, 4), 0.05, true, CannotTell},
		{"no floor", change(0.1, 0.005, math.NaN(), NotPrecise, 5), 0.05, true, CannotTell},
		{"failed", &Change{Row: Row{Verdict: HasFailed}}, 0.05, true, CannotTell},
	} {
		if got := Exceed([]Bound{{tt.change, tt.at, tt.above}}); got[0] != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got[0], tt.want)
		}
	}
	near := change(0.1, 0.02, 0.01, Slower, 5) // beyond its bound alone, but not as one of many
	list := []Bound{{near, 0.05, true}}
	if got := Exceed(list)[0]; got != Holds {
		t.Errorf("alone: %s", got)
	}
	for range 20 {
		list = append(list, Bound{change(0, 0.02, 0.01, NotPrecise, 5), 0.05, true})
	}
	if got := Exceed(list)[0]; got != CannotTell {
		t.Errorf("among many: %s", got)
	}
}

// Own estimates the value that tables show.
func TestOwn(t *testing.T) {
	s := twoStacks(rand.New(rand.NewPCG(3, 17)), 6, 1, 1)
	for _, r := range s.Analysis.Rows {
		e := r.Own.Estimate
		if !r.Own.HasRatio || math.Abs(e.Ratio/r.Value-1) > 1e-9 || math.Abs(math.Exp(e.Log)/r.Value-1) > 1e-9 ||
			math.Abs(e.Lo/r.ValueLo-1) > 1e-9 || math.Abs(e.Hi/r.ValueHi-1) > 1e-9 || e.Generations != 6 {
			t.Errorf("%s: %v [%v, %v], own %+v", r.Cell.ID, r.Value, r.ValueLo, r.ValueHi, e)
		}
	}
}

// Differences that make values incomparable are distinguished from those that the comparison is about.
func TestEssential(t *testing.T) {
	old, now := pairOf(), pairOf()
	now.Run.Facts["kernel"] = "6.18.1"
	now.Run.Design.TrialSeconds = map[string]float64{"host": 0.1}
	got := map[string]bool{}
	for _, o := range Obstacles(old, now) {
		got[o.What] = o.Essential
	}
	if d := gocmp.Diff(map[string]bool{"kernel release": false, "trial length": true}, got); d != "" {
		t.Error(d)
	}
}

// If one of two stacks changes between two runs, their ratio changes as much.
func TestCompareDirect(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 18))
	old, same, now := twoStacks(r, 8, 1, 1), twoStacks(r, 8, 1.4, 1), twoStacks(r, 8, 1.4, 1.2)
	direct := func(s Side) []Direct {
		return s.Analysis.Direct(func(cell, over *Cell) bool { return cell.ID == "nat" && over.ID == "bridge" })
	}
	for _, tt := range []struct {
		newer Side
		want  Verdict
		ratio float64
	}{{same, NoDifference, 1}, {now, Faster, 1 / 1.2}} {
		list := CompareDirect(direct(old), direct(tt.newer), 0.05)
		if len(list) != 1 {
			t.Fatalf("%d pairs", len(list))
		}
		c := list[0]
		if c.Verdict != tt.want || c.Cell.ID != "nat" || c.Over.ID != "bridge" || c.Estimate.Lo > tt.ratio ||
			c.Estimate.Hi < tt.ratio || c.Floor != math.Hypot(c.Old.Floor, c.New.Floor) {
			t.Errorf("%s, %v in [%v, %v], want %s, %v", c.Verdict, c.Estimate.Ratio, c.Estimate.Lo, c.Estimate.Hi, tt.want,
				tt.ratio)
		}
	}
	if list := CompareDirect(nil, direct(now), 0.05); list != nil {
		t.Errorf("%d pairs that only one run has", len(list))
	}
	few := CompareDirect(direct(twoStacks(r, 3, 1, 1)), direct(now), 0.05)
	if len(few) != 1 || few[0].Verdict != TooFew {
		t.Errorf("%+v", few)
	}
}
