package measure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/distuv"
)

// twoRuns says how to simulate a pair of runs: groups of a baseline, its twin and cells, whose generations differ by
// log-normal factors. All noise is a standard deviation of logarithms.
type twoRuns struct {
	name              string
	groups, cells     int
	generations       int
	generation, block float64 // noise of a cell from generation to generation, and from block to block
	lasting           float64 // noise of a cell from run to run, which a run alone cannot show
	effect            float64 // ln of the gain of the first cell in the new run
	metric            string
	oldGenerations    int     // of the old run; 0: as many as the new one
	oldNoise          float64 // noise of the old run as a multiple of that of the new one; 0: equal
}

func (w twoRuns) simulate(r *rand.Rand, old bool) Side {
	s := Side{Run: Run{Design: Design{Precision: 0.02}}}
	generations, factor, effect := w.generations, 1.0, w.effect
	if old {
		generations, factor, effect = cmp.Or(w.oldGenerations, generations), cmp.Or(w.oldNoise, 1), 0
	}
	const blocks = 4
	for g := range w.groups {
		base := fmt.Sprintf("host/%d", g)
		add := func(id, baseline string) {
			s.Run.Cells = append(s.Run.Cells, Cell{
				ID: id, Baseline: baseline, Twin: strings.HasSuffix(id, "#2"), Group: base, Primary: w.metric,
			})
		}
		add(base, "")
		add(base+"#2", base)
		for c := range w.cells {
			add(fmt.Sprintf("net%d/%d", c, g), base)
		}
	}
	each := w.cells + 2
	for g := range w.groups {
		labs := make([][][]float64, each)
		for i := range labs {
			lasting := w.lasting * r.NormFloat64()
			for range generations {
				x := make([]float64, blocks)
				level := lasting + factor*w.generation*r.NormFloat64()
				for b := range x {
					x[b] = level + factor*w.block*r.NormFloat64()
				}
				labs[i] = append(labs[i], x)
			}
		}
		for i := 1; i < each; i++ {
			for k, x := range labs[i] {
				for b := range x {
					x[b] -= labs[0][k][b]
					if g == 0 && i == 2 {
						x[b] += effect
					}
				}
			}
			e, err := EstimateRatio(labs[i])
			if err != nil {
				panic(err)
			}
			s.Analysis.Rows = append(s.Analysis.Rows, Row{
				Cell: &s.Run.Cells[g*each+i], Metric: w.metric, About: described(w.metric), Value: 1,
				Effect: Effect{HasRatio: true, Estimate: e},
				Blocks: e.Blocks, Generations: e.Generations,
			})
		}
		floor := Floor(s.Analysis.Rows[len(s.Analysis.Rows)-each+1].Estimate)
		for i := range each - 1 {
			s.Analysis.Rows[len(s.Analysis.Rows)-1-i].Floor = floor
		}
	}
	return s
}

// TestEqualRuns compares pairs of runs without a change: no more than 5 % of them may show any difference, and most
// cells must be found equal. The last world has noise that a run alone cannot show: between runs, a quarter of that
// between generations. Brackets have the results of other floors.
func TestEqualRuns(t *testing.T) {
	runs := times(t, 600)
	t.Logf("%d pairs each: world, pairs with any false verdict (twins' ratio of ratios, sum of floors instead), cells "+
		"without difference", runs)
	for i, w := range []twoRuns{
		{name: "default experiment, 5 generations", groups: 4, cells: 1, generations: 5, generation: 0.014, block: 0.01},
		{name: "8 generations", groups: 4, cells: 1, generations: 8, generation: 0.014, block: 0.01},
		{name: "4 cells of one group", groups: 1, cells: 4, generations: 5, generation: 0.014, block: 0.01},
		{name: "noisy", groups: 4, cells: 1, generations: 8, generation: 0.05, block: 0.1},
		{name: "old run twice as noisy", groups: 4, cells: 1, generations: 8, generation: 0.014, block: 0.01, oldNoise: 2},
		{
			name: "old run short and noisy", groups: 4, cells: 1, generations: 20, generation: 0.014, block: 0.01,
			oldGenerations: 5, oldNoise: 3,
		},
		{
			name: "runs differ by a quarter", groups: 4, cells: 1, generations: 8, generation: 0.014, block: 0.01,
			lasting: 0.0035,
		},
	} {
		w.metric = "latency_p50"
		r := rand.New(rand.NewPCG(uint64(i), 11))
		wrong, wrongTwin, wrongSum, words := 0, 0, 0, map[Verdict]int{}
		for range runs {
			old, now := w.simulate(r, true), w.simulate(r, false)
			twins := map[string]float64{}
			differs, byTwin, bySum := false, false, false
			changes := Compare(old, now)
			for _, c := range changes {
				if c.Cell.Twin {
					twins[c.Cell.Group] = Floor(c.Estimate)
				}
			}
			for _, c := range changes {
				if c.Cell.Twin {
					continue
				}
				words[c.Verdict]++
				differs = differs || c.Verdict == Faster || c.Verdict == Slower
				holm, point := c.AdjLo > 1 || c.AdjHi < 1, math.Abs(c.Estimate.Log)
				byTwin = byTwin || holm && point > twins[c.Cell.Group]
				bySum = bySum || holm && point > c.Old.Floor+c.New.Floor
			}
			wrong, wrongTwin, wrongSum = wrong+one(differs), wrongTwin+one(byTwin), wrongSum+one(bySum)
		}
		all := runs * w.groups * w.cells
		t.Logf("| %-36s | %.3f (%.3f, %.3f) | %.3f |", w.name, share(wrong, runs), share(wrongTwin, runs),
			share(wrongSum, runs), share(words[NoDifference], all))
		if lo, _ := ClopperPearson(wrong, runs, 0.95); lo > Level {
			t.Errorf("%s: %d of %d pairs of equal runs show a difference", w.name, wrong, runs)
		}
		least := 0.0
		switch {
		case w.oldNoise > 0 || w.block >= 0.1: // too noisy or too short for a verdict
		case w.generations < 8:
			least = 0.4 // two floors of 4 % make one of 5.7 %, which is the margin
		default:
			least = 0.9
		}
		if share(words[NoDifference], all) < least {
			t.Errorf("%s: %d of %d cells have no difference: %v", w.name, words[NoDifference], all, words)
		}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestChangedRuns compares runs in which one cell has changed by 5 %; generations differ by 2 %.
func TestChangedRuns(t *testing.T) {
	runs := times(t, 300)
	sd := 0.02 / math.Sqrt2 // of one cell, for a ratio's 0.02
	for i, tt := range []struct {
		metric      string
		generations int
		effect      float64
		want        Verdict
		least       float64 // least share of the pairs in which it is found
	}{
		{"latency_p50", 5, 0.05, Slower, 0.3},
		{"latency_p50", 8, 0.05, Slower, 0.8},
		{"goodput", 8, 0.05, Faster, 0.8},
		{"latency_p50", 8, -0.05, Faster, 0.8},
		{"latency_p50", 15, 0.05, Slower, 0.97},
		{"goodput", 5, -0.1, Slower, 0.95},
	} {
		w := twoRuns{
			groups: 4, cells: 1, generations: tt.generations, generation: sd, block: 0.005,
			effect: math.Log1p(tt.effect), metric: tt.metric,
		}
		r := rand.New(rand.NewPCG(uint64(i), 12))
		found, wrong, covered := 0, 0, 0
		for range runs {
			old, now := w.simulate(r, true), w.simulate(r, false)
			for _, c := range Compare(old, now) {
				if c.Cell.ID != "net0/0" {
					continue
				}
				found += one(c.Verdict == tt.want)
				wrong += one(Differs(c.Verdict) && c.Verdict != tt.want ||
					c.Verdict == NoDifference && math.Abs(tt.effect) > Margin(old.Run.Design, now.Run.Design))
				covered += one(c.Estimate.Lo <= 1+tt.effect && 1+tt.effect <= c.Estimate.Hi)
			}
		}
		t.Logf("%2d generations, %s %+.0f %%: found in %.3f, covered in %.3f", tt.generations, tt.metric, 100*tt.effect,
			share(found, runs), share(covered, runs))
		if share(found, runs) < tt.least || wrong > 0 {
			t.Errorf("%d generations, %s %+.0f %%: found in %d of %d pairs of runs, with the wrong sign in %d", tt.generations,
				tt.metric, 100*tt.effect, found, runs, wrong)
		}
		if _, hi := ClopperPearson(covered, runs, 0.99); hi < 1-Level {
			t.Errorf("%d generations: %d of %d intervals hold the truth", tt.generations, covered, runs)
		}
	}
}

// Welch's interval agrees with figures computed by hand, and its limits are right.
func TestWelch(t *testing.T) {
	x, y := tEstimate{mean: 0.1, stderr: 0.03, df: 4}, tEstimate{mean: 0.3, stderr: 0.04, df: 9}
	w := welch(x, y)
	// s² = 0.0009 + 0.0016 = 0.0025; ν = 0.0025² / (0.0009²/4 + 0.0016²/9) = 6.25e-6 / 4.8694e-7
	if df := 6.25e-6 / (0.81e-6/4 + 2.56e-6/9); math.Abs(w.mean-0.2) > 1e-12 || math.Abs(w.stderr-0.05) > 1e-12 ||
		math.Abs(w.df-df) > 1e-9 {
		t.Errorf("%+v, want 0.2, 0.05, %v", w, df)
	}
	if p := 2 * (distuv.StudentsT{Mu: 0, Sigma: 1, Nu: w.df}).CDF(-4); math.Abs(w.p-p) > 1e-12 {
		t.Errorf("p %v, want %v", w.p, p)
	}
	back := welch(y, x)
	if back.mean != -w.mean || back.stderr != w.stderr || back.df != w.df || back.p != w.p {
		t.Errorf("the other way round %+v, want the negative of %+v", back, w)
	}
	for _, tt := range []struct{ x, y, want tEstimate }{
		{tEstimate{mean: 1, df: 4}, tEstimate{mean: 1, df: 6}, tEstimate{mean: 0, df: 10, p: 1}},
		{tEstimate{mean: 1, df: 4}, tEstimate{mean: 2, df: 6}, tEstimate{mean: 1, df: 10}},
		// the square of such a standard error vanishes
		{tEstimate{mean: 1, df: 4}, tEstimate{mean: 1, stderr: 1e-200, df: 6}, tEstimate{mean: 0, df: 10, p: 1}},
	} {
		if got := welch(tt.x, tt.y); math.Abs(got.df-tt.want.df) > 1e-9 || got.mean != tt.want.mean || got.p != tt.want.p {
			t.Errorf("%+v − %+v: %+v, want %+v", tt.y, tt.x, got, tt.want)
		}
	}
}

// pairOf is a run of few cells with everything that a comparison reads.
func pairOf() Side {
	cell := func(id, baseline string) Cell {
		return Cell{
			ID: id, Baseline: baseline, Twin: strings.HasSuffix(id, "#2"), Group: "g", Parts: []Part{
				{Kind: "network", ID: strings.TrimSuffix(id, "#2")},
			}, Family: "ipv4", Affinity: "split", Hosts: 2, Pairs: 1,
			Workload: "udp-rate", Params: map[string]string{"payload": "64"}, Primary: "packet_rate",
			Implementation: map[string]string{"network": "kernel"},
		}
	}
	s := Side{Run: Run{
		V: 1, Versions: map[string]string{"nettoll": "v0.1.0"},
		Facts: map[string]any{
			"kernel": "6.12.9", "cpus": 2, "cpus_sources": []int{0}, "cpus_sinks": []int{1}, "mtu": 1500,
			"mitigations": map[string]string{"retbleed": "Vulnerable"}, "host": "a",
		},
		Design: Design{Precision: 0.02, Time: 40, Seed: 1, Generations: 5, TrialSeconds: map[string]float64{
			"host": 0.04, "host#2": 0.04, "bridge": 0.04, "nat": 0.04,
		}},
		Cells: []Cell{cell("host", ""), cell("host#2", "host"), cell("bridge", "host"), cell("nat", "host")},
	}}
	s.Analysis.Facts = []Fact{
		{Key: "congestion_control", Value: "cubic"},
		{Key: "sockets of x", Value: map[string]any{
			"bridge sink": map[string]any{"send_buffer": 4096, "mss": 1448},
			"nat sink":    map[string]any{"send_buffer": 4096, "mss": 1448},
		}},
	}
	row := func(i int, metric string, log float64) Row {
		c := &s.Run.Cells[i]
		m, _ := Version2().Lookup(metric)
		r := Row{Cell: c, Metric: metric, Unit: m.Unit, About: m, Value: 100, Blocks: 20, Generations: 5, Floor: 0.003}
		switch {
		case c.Baseline == "":
		case m.Differs():
			r.HasDifference, r.Difference = true, Difference{
				Points: log, StdErr: 0.001, DF: 4, P: twoSided(log, 0.001, 4), Generations: 5, Blocks: 20,
			}
		default:
			r.HasRatio, r.Estimate = true, Estimate{
				Log: log, Ratio: math.Exp(log), StdErr: 0.001, DF: 4, P: twoSided(log, 0.001, 4), Generations: 5, Blocks: 20,
			}
		}
		return r
	}
	for i := range s.Run.Cells {
		for _, metric := range []string{"packet_rate", "loss", "cpu_busy"} {
			s.Analysis.Rows = append(s.Analysis.Rows, row(i, metric, 0))
		}
	}
	return s
}

// set changes the log ratio or difference of a row.
func (s Side) set(cell, metric string, x float64) {
	for i := range s.Analysis.Rows {
		if r := &s.Analysis.Rows[i]; r.Cell.ID == cell && r.Metric == metric {
			r.Estimate.Log, r.Difference.Points = x, x
		}
	}
}

func words(list []Change) map[string]Verdict {
	m := map[string]Verdict{}
	for _, c := range list {
		m[c.Cell.ID+" "+c.Metric] = c.Verdict
	}
	return m
}

func TestCompare(t *testing.T) {
	equal := map[string]Verdict{}
	for _, metric := range []string{"packet_rate", "loss", "cpu_busy"} {
		equal["host "+metric], equal["host#2 "+metric], equal["bridge "+metric], equal["nat "+metric] = IsBaseline, IsTwin,
			NoDifference, NoDifference
	}
	without := func(s Side, cell, metric string) Side {
		s.Analysis.Rows = slices.DeleteFunc(s.Analysis.Rows, func(r Row) bool {
			return r.Cell.ID == cell && (metric == "" || r.Metric == metric)
		})
		return s
	}
	for _, tt := range []struct {
		name   string
		change func(old, now *Side)
		want   map[string]Verdict // differences from equal runs; "": not compared
	}{
		{"equal", func(_, _ *Side) {}, nil},
		{"changed", func(old, now *Side) {
			now.set("bridge", "packet_rate", -0.05)
			now.set("nat", "packet_rate", 0.02)
			old.set("nat", "loss", 0.05)
			now.set("nat", "loss", 0.02)
			now.set("bridge", "cpu_busy", 0.1)
		}, map[string]Verdict{
			"bridge packet_rate": Slower, "nat packet_rate": Faster, "nat loss": Lower,
			"bridge cpu_busy": Higher,
		}},
		{"the same toll twice", func(old, now *Side) {
			old.set("bridge", "packet_rate", -0.4)
			now.set("bridge", "packet_rate", -0.4)
		}, nil},
		{"a cell of one run", func(old, _ *Side) {
			old.Run.Cells = slices.Delete(slices.Clone(old.Run.Cells), 2, 3)
		}, map[string]Verdict{"bridge packet_rate": "", "bridge loss": "", "bridge cpu_busy": ""}},
		{"failed in one run", func(_, now *Side) {
			*now = without(*now, "nat", "loss")
			*now = without(*now, "nat", "cpu_busy")
			for i := range now.Analysis.Rows {
				if r := &now.Analysis.Rows[i]; r.Cell.ID == "nat" {
					*r = Row{Cell: r.Cell, Metric: r.Metric, About: r.About, Value: math.NaN(), Floor: math.NaN(), Verdict: HasFailed}
				}
			}
		}, map[string]Verdict{"nat packet_rate": HasFailed, "nat loss": "", "nat cpu_busy": ""}},
		{"a metric of one run", func(old, now *Side) {
			*old = without(*old, "nat", "packet_rate")
			*now = without(*now, "bridge", "loss")
		}, map[string]Verdict{"nat packet_rate": NotPrecise, "bridge loss": NotPrecise}},
		{"too few generations", func(old, _ *Side) {
			for i := range old.Analysis.Rows {
				old.Analysis.Rows[i].HasRatio = false
			}
		}, map[string]Verdict{
			"bridge packet_rate": NotPrecise, "nat packet_rate": NotPrecise, "bridge cpu_busy": NotPrecise,
			"nat cpu_busy": NotPrecise,
		}},
		{"no floor in one run", func(old, now *Side) {
			for i := range old.Analysis.Rows {
				old.Analysis.Rows[i].Floor = math.NaN()
			}
			now.set("bridge", "packet_rate", -0.5)
		}, map[string]Verdict{
			"bridge packet_rate": NotPrecise, "nat packet_rate": NotPrecise, "bridge cpu_busy": NotPrecise,
			"nat cpu_busy": NotPrecise, "bridge loss": NotPrecise, "nat loss": NotPrecise,
		}},
		{"below the floors together", func(_, now *Side) { now.set("bridge", "packet_rate", 0.004) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old, now := pairOf(), pairOf()
			tt.change(&old, &now)
			want := maps.Clone(equal)
			for k, v := range tt.want {
				if want[k] = v; v == "" {
					delete(want, k)
				}
			}
			list := Compare(old, now)
			if d := gocmp.Diff(want, words(list)); d != "" {
				t.Error(d)
			}
			for _, c := range list {
				if c.Cell.ID == "host" && c.Drift() != 1 || c.Primary != (c.Metric == "packet_rate") {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// All primary metrics are one family: with more cells, a change must be clearer to be found.
func TestCompareIsOneFamily(t *testing.T) {
	old, now := pairOf(), pairOf()
	now.set("bridge", "packet_rate", 0.05)
	for _, c := range Compare(old, now) {
		if c.Cell.ID != "bridge" || c.Metric != "packet_rate" {
			continue
		}
		if i := c.Estimate.Interval(drawn / 2); i.Lo != c.AdjLo || i.Hi != c.AdjHi {
			t.Errorf("of two primary metrics, the first is drawn at %v to %v, want %v", c.AdjLo, c.AdjHi, i)
		}
	}
}

func TestWorse(t *testing.T) {
	for _, tt := range []struct {
		metric  string
		verdict Verdict
		want    bool
	}{
		{"goodput", Slower, true},
		{"goodput", Faster, false},
		{"loss", Higher, true},
		{"loss", Lower, false},
		{"packet_rate_sent", Lower, false},
		{"latency_p50", NotPrecise, false},
		{"latency_p50", HasFailed, false},
	} {
		if got := (Change{Row: Row{
			Metric: tt.metric, About: described(tt.metric), Verdict: tt.verdict,
		}}).Worse(); got != tt.want {
			t.Errorf("%s %s: worse %v, want %v", tt.metric, tt.verdict, got, tt.want)
		}
	}
}

func TestObstacles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Side)
		want   []Obstacle
	}{
		{"nothing", func(*Side) {}, nil},
		{"what does not matter", func(s *Side) {
			s.Run.Design = Design{Precision: 0.05, Time: 10, Seed: 9, Generations: 7, TrialSeconds: s.Run.Design.TrialSeconds}
			s.Run.Facts["host"], s.Run.Name, s.Run.Versions["nettoll"] = "b", "other", "v0.1.4"
		}, nil},
		{"the machine", func(s *Side) {
			s.Run.Facts["kernel"], s.Run.Facts["cpus_sinks"], s.Run.Facts["mtu"] = "6.18.1", []int{2}, 9000
			s.Run.Versions["nettoll"] = "v0.2.0"
			s.Run.Facts["mitigations"] = map[string]string{"retbleed": "Mitigation: x"}
		}, []Obstacle{
			{What: "nettoll version", Old: "0.1", New: "0.2"},
			{What: "kernel release", Old: "6.12.9", New: "6.18.1"},
			{What: "MTU", Old: "1500", New: "9000"},
			{What: "mitigations of the CPU's faults", Old: `{"retbleed":"Vulnerable"}`, New: `{"retbleed":"Mitigation: x"}`},
			{What: "CPUs of the sinks", Old: "[1]", New: "[2]"},
		}},
		{"another machine", func(s *Side) {
			s.Run.Machines = []MachineFacts{{Machine: "node2", Hosts: []string{"host2"}, Facts: map[string]any{
				"kernel": "6.12.10", "mtu": 1500.0, "governor": "powersave",
			}}}
		}, []Obstacle{{What: "kernel release", Old: "6.12.9", New: "6.12.9; node2: 6.12.10"}}},
		{"the CPUs of another affinity", func(s *Side) { // the keys of the first affinity have no suffix
			for i := range s.Run.Cells[:2] {
				s.Run.Cells[i].ID, s.Run.Cells[i].Affinity = "free-"+s.Run.Cells[i].ID, "free"
			}
			s.Run.Facts["cpus_sources"], s.Run.Facts["cpus_sinks"] = nil, nil
			s.Run.Facts["cpus_sources_split"], s.Run.Facts["cpus_sinks_split"] = []int{0}, []int{3}
		}, []Obstacle{{What: "CPUs of the sinks", Old: "[1]", New: "[3]"}}},
		{"unknown of one run", func(s *Side) {
			delete(s.Run.Facts, "kernel")
			s.Run.Versions = nil
			s.Run.Design.TrialSeconds = nil
			s.Analysis.Facts = nil
		}, nil},
		{"trial length", func(s *Side) {
			s.Run.Design.TrialSeconds = map[string]float64{"host": 0.04, "host#2": 0.04, "bridge": 0.1, "nat": 0.1, "ipvlan": 3}
		}, []Obstacle{{What: "trial length", Old: "40 ms", New: "100 ms", Cells: []string{"bridge", "nat"}, Essential: true}}},
		{"cells", func(s *Side) {
			s.Run.Cells[3].Implementation = map[string]string{"network": "ebpf", "filter": "kernel"}
			s.Run.Cells[3].Affinity = "free"
			s.Run.Cells[3].Hosts = 3
			s.Run.Cells[2].Baseline = "nat"
			s.Run.Cells[2].Params = map[string]string{"payload": "65"}
		}, []Obstacle{
			{What: "baseline", Old: "host", New: "nat", Cells: []string{"bridge"}},
			{What: "workload", Old: "udp-rate(payload=64)", New: "udp-rate(payload=65)", Cells: []string{"bridge"}, Essential: true},
			{What: "affinity", Old: "split", New: "free", Cells: []string{"nat"}},
			{What: "hosts of the lab", Old: "2", New: "3", Cells: []string{"nat"}},
			{What: "implementation of the network", Old: "kernel", New: "ebpf", Cells: []string{"nat"}},
		}},
		{"a parameter that only one run has occasion to name", func(s *Side) {
			s.Run.Cells[2].Params = map[string]string{"payload": "64", "rate": "max"}
		}, nil},
		{"the MTU of a cell", func(s *Side) {
			s.Run.Cells[3].Parts = append(s.Run.Cells[3].Parts, Part{Kind: "mtu", ID: "9000"})
		}, []Obstacle{{What: "MTU", Old: "1500", New: "9000", Cells: []string{"nat"}}}},
		{"the same MTU, of a cell and of the run", func(s *Side) {
			s.Run.Facts["mtu"] = 9000
			for i := range s.Run.Cells {
				s.Run.Cells[i].Parts = append(s.Run.Cells[i].Parts, Part{Kind: "mtu", ID: "1500"},
					Part{Kind: "congestion_control", ID: "auto"})
			}
		}, nil},
		{"the congestion control of a cell", func(s *Side) {
			s.Run.Cells[2].Parts = append(s.Run.Cells[2].Parts, Part{Kind: "congestion_control", ID: "bbr"})
		}, []Obstacle{{What: "congestion control", Old: "cubic", New: "bbr", Cells: []string{"bridge"}}}},
		{"a cell of one run", func(s *Side) {
			s.Run.Cells[3].ID = "macvlan"
			s.Run.Cells[3].Affinity = "free"
		}, nil},
		{"facts", func(s *Side) {
			s.Analysis.Facts = []Fact{
				{Key: "congestion_control", Value: "bbr"},
				{Key: "sockets of y", Value: map[string]any{
					"bridge sink": map[string]any{
						"send_buffer": 8192, "mss": 1448, "new": true,
					}, "nat sink": map[string]any{"send_buffer": 8192}, "ipvlan sink": map[string]any{"mss": 1},
				}},
				{Key: "sockets of z", Value: "a newer nettoll's"},
			}
		}, []Obstacle{
			{What: "congestion control", Old: "cubic", New: "bbr"},
			{What: "send buffer of the sink's sockets", Old: "4096", New: "8192", Cells: []string{"bridge", "nat"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old, now := pairOf(), pairOf()
			tt.change(&now)
			if d := gocmp.Diff(tt.want, Obstacles(old, now)); d != "" {
				t.Error(d)
			}
		})
	}
}

// A run from a file equals the same run in memory.
func TestObstaclesOfFiles(t *testing.T) {
	now := pairOf()
	b, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	var old struct {
		Run      Run
		Analysis struct{ Facts []Fact }
	}
	if err := json.Unmarshal(b, &old); err != nil {
		t.Fatal(err)
	}
	if got := Obstacles(Side{Run: old.Run, Analysis: Analysis{Facts: old.Analysis.Facts}}, now); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestFamily(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0": "0.1", "v0.1.7": "0.1", "v1.12.3-rc1": "1.12", "v0.0.0-20261120120000-abcdef012345": "0.0",
		"(devel)": "(devel)", "unknown": "unknown", "": "", "a.b.c": "a.b.c",
	} {
		if got := family(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}

func described(metric string) Metric {
	m, _ := Version2().Lookup(metric)
	return m
}
