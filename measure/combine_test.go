package measure

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A combination of a cell over its baseline is the ratio of every report, with its floor.
func TestCombineIsTheRatioOfAnalyze(t *testing.T) {
	run, log := play(t, 10, 8)
	a := Analyze(run, log)
	c := NewCombiner(run, log, a)
	for _, metric := range []string{"goodput", "latency_p50", "cpu_busy"} {
		got, err := c.Combine([]Term{{Cell: "fast", Metric: metric, Power: 1}, {Cell: "base", Metric: metric, Power: -1}})
		want := row(t, a, "fast", metric)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Estimate, got.Estimate, near(1e-9)); d != "" {
			t.Errorf("%s (-want +got):\n%s", metric, d)
		}
		if math.Abs(got.Floor-want.Floor) > 1e-12 {
			t.Errorf("%s: floor %g, want %g", metric, got.Floor, want.Floor)
		}
	}
}

// combined makes a run of two groups, "one" and "ten", of base, twin, a and b. A cell is exactly exp(level), times a
// factor common to the block and one of its own for the generation.
func combined(levels map[string]float64, spread float64, generations, blocks int) (Run, *Log) {
	run, log := Run{V: 1}, &Log{}
	for _, g := range []string{"one", "ten"} {
		for _, c := range []string{"base", "base#2", "a", "b"} {
			cell := Cell{ID: g + "/" + c, Group: g, Baseline: g + "/base", Twin: c == "base#2", Primary: "transaction_rate"}
			if c == "base" {
				cell.Baseline = ""
			}
			run.Cells = append(run.Cells, cell)
		}
	}
	r := rand.New(rand.NewPCG(4, 2))
	for g := range generations {
		own := map[string]float64{}
		for _, c := range run.Cells {
			own[c.ID] = spread * r.NormFloat64()
		}
		for b := range blocks {
			drift := r.NormFloat64()
			for _, c := range run.Cells {
				x := levels[c.ID] + own[c.ID] + drift
				log.Trials = append(log.Trials,
					Trial{Generation: g, Block: g*blocks + b, Cell: c.ID, Duration: 1, Metrics: map[string]float64{
						"transaction_rate": math.Exp(x), "latency_mean": math.Exp(-x), "loss": 0, "goodput": 0,
					}})
			}
		}
	}
	return run, log
}

func rates(over, under []string) []Term {
	var terms []Term
	for _, c := range over {
		terms = append(terms, Term{Cell: c, Metric: "transaction_rate", Power: 1})
	}
	for _, c := range under {
		terms = append(terms, Term{Cell: c, Metric: "transaction_rate", Power: -1})
	}
	return terms
}

func TestCombine(t *testing.T) {
	run, log := combined(map[string]float64{"one/a": 0.3, "one/b": 0.1, "ten/a": -0.5, "ten/b": -0.9}, 0.001, 6, 3)
	a := Analyze(run, log)
	c := NewCombiner(run, log, a)
	one, ten := c.floors[groupMetric{"one", "transaction_rate"}], c.floors[groupMetric{"ten", "transaction_rate"}]
	if !(one > 0 && ten > 0 && one != ten) {
		t.Fatal(one, ten)
	}
	for _, tt := range []struct {
		name        string
		terms       []Term
		want, floor float64
	}{
		{"a ratio within a group", rates([]string{"one/a"}, []string{"one/b"}), 0.2, one},
		{"a ratio over groups", rates([]string{"ten/a"}, []string{"one/a"}), -0.8, math.Sqrt((one*one + ten*ten) / 2)},
		{"a ratio of ratios", rates([]string{"ten/b", "one/a"}, []string{"ten/a", "one/b"}), -0.2, math.Hypot(one, ten)},
		{"a power", []Term{
			{Cell: "one/a", Metric: "transaction_rate", Power: 2},
			{Cell: "one/b", Metric: "transaction_rate", Power: -2},
		}, 0.4, 2 * one},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.Combine(tt.terms)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Log-tt.want) > 0.005 || got.Generations != 6 || got.Blocks != 18 ||
				!(got.Lo < got.Ratio && got.Ratio < got.Hi) {
				t.Errorf("%+v, want %g", got, tt.want)
			}
			if math.Abs(got.Floor-tt.floor) > 1e-12 {
				t.Errorf("floor %g, want %g", got.Floor, tt.floor)
			}
		})
	}
	// Rate and latency are reciprocal here. Their product is not a ratio of equal units: there is no drift to cancel.
	got, err := c.Combine([]Term{
		{Cell: "one/a", Metric: "transaction_rate", Power: 1}, {Cell: "one/a", Metric: "latency_mean", Power: 1},
	})
	if err != nil || math.Abs(got.Log) > 1e-12 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCombineWithoutValues(t *testing.T) {
	run, log := combined(nil, 0.01, 3, 2)
	for i := range log.Trials {
		switch tr := &log.Trials[i]; {
		case tr.Cell == "one/b" && tr.Generation > 0:
			tr.Failed = "it broke"
		case tr.Cell == "ten/a" && tr.Block%2 == 0:
			delete(tr.Metrics, "transaction_rate")
		}
	}
	c := NewCombiner(run, log, Analyze(run, log))
	for _, tt := range []struct {
		name  string
		terms []Term
		want  error // nil: any
	}{
		{"no term", nil, ErrFewGenerations},
		{"no such cell", rates([]string{"x"}, []string{"one/a"}), nil},
		{"no ratio", []Term{{Cell: "one/a", Metric: "loss", Power: 1}}, nil},
		{"unknown metric", []Term{{Cell: "one/a", Metric: "x", Power: 1}}, nil},
		{"one generation", rates([]string{"one/a"}, []string{"one/b"}), ErrFewGenerations},
		{"zero", []Term{{Cell: "one/a", Metric: "goodput", Power: 1}}, ErrNotFinite},
	} {
		got, err := c.Combine(tt.terms)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !math.IsNaN(got.Floor) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	if got, err := c.Combine(rates([]string{"ten/a"}, []string{"one/a"})); err != nil || got.Blocks != 3 {
		t.Errorf("blocks without the metric are used: %+v, %v", got, err)
	}
}

func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		b    Bounds
		x    float64
		want Finding
	}{
		{Bounds{Above: 1}, 1.01, Holds},
		{Bounds{Above: 1}, 1, DoesNotHold},
		{Bounds{Below: 1}, 0.5, Holds},
		{Bounds{Below: 1}, 2, DoesNotHold},
		{Bounds{0.67, 0.74}, 0.7, Holds},
		{Bounds{0.67, 0.74}, 0.75, DoesNotHold},
		{Bounds{0.67, 0.74}, 0.66, DoesNotHold},
		{Bounds{Above: 1}, math.NaN(), CannotTell},
	} {
		if got := tt.b.Of(tt.x); got != tt.want {
			t.Errorf("%v of %g: %s, want %s", tt.b, tt.x, got, tt.want)
		}
	}
}

// about returns a question whose estimate has 10 generations.
func about(ratio, stderr, floor float64, b Bounds) Question {
	l := math.Log(ratio)
	return Question{Combined{Estimate{Ratio: ratio, Log: l, StdErr: stderr, DF: 9, Generations: 10}, floor}, b, nil}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		q      Question
		want   Finding
		longer float64 // to 5 %; 0: more than 1
	}{
		{"far above", about(1.5, 0.01, 0.01, Bounds{Above: 1}), Holds, 1},
		{"far below", about(0.8, 0.01, 0.01, Bounds{Above: 1}), DoesNotHold, 1},
		{"wide", about(1.5, 0.5, 0.01, Bounds{Above: 1}), CannotTell, 0},
		{"within", about(1, 0.005, 0.01, Bounds{0.95, 1.05}), Holds, 1},
		{
			"within but for the floor", about(1, 0.005, 0.06, Bounds{1 / 1.05, 1.05}), CannotTell,
			math.Pow(0.06/math.Log(1.05), 2),
		},
		{"beside", about(1.2, 0.005, 0.01, Bounds{0.95, 1.05}), DoesNotHold, 1},
		{"on the bound", about(1, 0.01, 0.01, Bounds{Above: 1}), CannotTell, math.Inf(1)},
		{"below the floor", about(1.02, 0.0001, 0.05, Bounds{Above: 1}), CannotTell, math.Pow(0.05/math.Log(1.02), 2)},
		{"no floor", about(1.5, 0.01, math.NaN(), Bounds{Above: 1}), CannotTell, math.NaN()},
		{
			"one generation",
			Question{Combined{Estimate{Log: 0.4, Generations: 1}, 0.01}, Bounds{Above: 1}, nil},
			CannotTell,
			math.NaN(),
		},
		{"no spread at all", about(1.5, 0, 0, Bounds{Above: 1}), Holds, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Judge([]Question{tt.q}, drawn)[0]
			if got.Finding != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
			if tt.longer == 0 && got.Longer > 1 || math.IsNaN(tt.longer) && math.IsNaN(got.Longer) || got.Longer == tt.longer {
				return
			}
			if math.Abs(got.Longer/tt.longer-1) > 0.05 {
				t.Errorf("%g times as long, want %g", got.Longer, tt.longer)
			}
		})
	}
}

// Longer is the number of generations after which the estimate would be precise enough.
func TestJudgeLonger(t *testing.T) {
	q := about(1.03, 0.02, 0.001, Bounds{Above: 1})
	longer := Judge([]Question{q}, drawn)[0].Longer
	for _, tt := range []struct {
		times float64
		want  Finding
	}{{longer * 1.02, Holds}, {longer * 0.97, CannotTell}} {
		more := q
		more.StdErr /= math.Sqrt(tt.times)
		more.Generations, more.DF = int(10*tt.times), 10*tt.times-1
		if got := Judge([]Question{more}, drawn)[0]; got.Finding != tt.want {
			t.Errorf("after %.2f times as long: %+v, want %s", tt.times, got, tt.want)
		}
	}
}

// All bounds are one family: an answer to one question alone can be missing if it is one of many.
func TestJudgeIsOneFamily(t *testing.T) {
	q := about(1.05, 0.017, 0.001, Bounds{Above: 1})
	if got := Judge([]Question{q}, drawn)[0].Finding; got != Holds {
		t.Errorf("alone: %s", got)
	}
	many := make([]Question, 20)
	for i := range many {
		many[i] = about(1, 0.017, 0.001, Bounds{Above: 1})
	}
	many[7] = q
	if got := Judge(many, drawn)[7].Finding; got != CannotTell {
		t.Errorf("among twenty: %s", got)
	}
}

// A bound of what is measured once is one hypothesis, however many questions have it, whichever way round they write
// the ratio and whatever they multiply it by: a family gets the same answers as without the repetitions.
func TestJudgeCountsAMeasurementOnce(t *testing.T) {
	of := func(q Question, terms ...Term) Question {
		q.Terms = terms
		return q
	}
	over := func(a, b string) []Term {
		return []Term{{Cell: a, Metric: "goodput", Power: 1}, {Cell: b, Metric: "goodput", Power: -1}}
	}
	var once []Question
	for i, ratio := range []float64{1.03, 1.04, 1.045, 1.05, 1.055, 1.06, 1.08} {
		once = append(once, of(about(ratio, 0.017, 0.001, Bounds{Above: 1}), over(string(rune('a'+i)), "host")...))
	}
	want := Judge(once, drawn)
	decided := 0
	for _, a := range want {
		if a.Finding == Holds {
			decided++
		}
	}
	if decided == 0 || decided == len(once) {
		t.Fatalf("%d of %d hold: the correction would not be seen", decided, len(once))
	}
	inverse := func(q Question) Question {
		q.Log, q.Ratio, q.Bounds = -q.Log, 1/q.Ratio, Bounds{Below: 1}
		q.Terms = []Term{q.Terms[1], q.Terms[0]}
		q.Terms[0].Power, q.Terms[1].Power = 1, -1
		return q
	}
	doubled := func(q Question) Question {
		q.Log, q.Ratio, q.Bounds = q.Log+math.Log(2), 2*q.Ratio, Bounds{Above: 2}
		return q
	}
	for name, again := range map[string]func(Question) Question{
		"as it is": func(q Question) Question { return q }, "inverse": inverse, "twice as much": doubled,
	} {
		list := slices.Clone(once)
		for _, q := range once {
			list = append(list, again(q))
		}
		got := Judge(list, drawn)
		for i := range want {
			if d := cmp.Diff(want[i], got[i], near(1e-9)); d != "" {
				t.Errorf("%s: question %d (-once +twice):\n%s", name, i, d)
			}
			if got[len(once)+i].Finding != want[i].Finding {
				t.Errorf("%s: question %d: %s, and asked again %s", name, i, want[i].Finding, got[len(once)+i].Finding)
			}
		}
	}
	// What differs in anything is another hypothesis.
	for name, other := range map[string]func(*Question){
		"cell":   func(q *Question) { q.Terms[1].Cell = "other" },
		"metric": func(q *Question) { q.Terms[0].Metric = "packet_rate" },
		"bound":  func(q *Question) { q.Bounds.Above = 1.0001 },
		"power":  func(q *Question) { q.Terms[1].Power = -2 },
		"terms":  func(q *Question) { q.Terms = nil },
	} {
		list := slices.Clone(once)
		for _, q := range once {
			q.Terms = slices.Clone(q.Terms)
			other(&q)
			list = append(list, q)
		}
		if got := Judge(list, drawn); cmp.Equal(got[:len(once)], want, near(1e-9)) {
			t.Errorf("another %s does not count", name)
		}
	}
}

func TestSummarise(t *testing.T) {
	yes, no := Answer{Holds, 1, true}, Answer{DoesNotHold, 1, false}
	in, out, unknown := Answer{CannotTell, 5, true}, Answer{CannotTell, 9, false}, Answer{CannotTell, math.NaN(), false}
	for _, tt := range []struct {
		name  string
		parts []Answer
		want  Answer
	}{
		{"none", nil, unknown},
		{"all", []Answer{yes, yes}, yes},
		{"not one", []Answer{yes, no, in}, no},
		{"one open", []Answer{yes, in}, Answer{CannotTell, 5, true}},
		{"until all hold", []Answer{in, {CannotTell, 7, true}}, Answer{CannotTell, 7, true}},
		{"until one does not", []Answer{in, out, {CannotTell, 12, false}}, Answer{CannotTell, 9, false}},
		{"one was not measured", []Answer{yes, unknown}, unknown},
		{"one was not measured, but another may decide", []Answer{unknown, out}, Answer{CannotTell, 9, false}},
	} {
		if d := cmp.Diff(tt.want, Summarise(tt.parts), near(0)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// TestJudgeErrors places every combination exactly on a bound, so that both answers are wrong. At most 5 % of runs may
// give any answer, however many claims there are, and although they share cells. There is no floor, which would make
// answers rarer.
func TestJudgeErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 4))
	runs := times(t, 200)
	wrong := 0
	for range runs {
		const cells, generations = 8, 8
		var medians [cells][generations]float64
		for c := range medians {
			for g := range medians[c] {
				medians[c][g] = 0.03 * r.NormFloat64()
			}
		}
		var list []Question
		for a := range medians {
			for b := range a {
				var gens [][]float64
				for g := range generations {
					gens = append(gens, []float64{medians[a][g] - medians[b][g]})
				}
				e, err := EstimateRatio(gens)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, Question{Combined{e, 0}, Bounds{Above: 1}, nil}, Question{Combined{e, 0}, Bounds{1, 1.1}, nil})
			}
		}
		for _, a := range Judge(list, drawn) {
			if a.Finding != CannotTell {
				wrong++
				break
			}
		}
	}
	lo, hi := ClopperPearson(wrong, runs, 0.95)
	t.Logf("an answer in %d of %d runs", wrong, runs)
	if lo > Level || hi == 0 {
		t.Errorf("an answer in %d of %d runs (%.3f to %.3f), want at most %g", wrong, runs, lo, hi, Level)
	}
}

// A lab has one value in each generation, which stands for each of its blocks. Labs alone are combined over
// generations; they have no floor.
func TestCombineLabs(t *testing.T) {
	run, log := combined(map[string]float64{"one/a": math.Log(2)}, 0, 5, 4)
	for g := range 5 {
		log.Labs = append(log.Labs,
			LabRecord{Generation: g, Lab: "ovs", Metrics: map[string]float64{"first_packet_latency": 6}},
			LabRecord{Generation: g, Lab: "other", Metrics: map[string]float64{"first_packet_latency": 3}})
	}
	c := NewCombiner(run, log, Analyze(run, log))
	first := func(lab string, power float64) Term {
		return Term{Metric: "first_packet_latency", Power: power, Lab: lab}
	}
	for _, x := range []struct {
		name  string
		terms []Term
		want  float64
	}{
		{"labs", []Term{first("ovs", 1), first("other", -1)}, 2},
		{"a lab alone", []Term{first("ovs", 1)}, 6},
		{"a lab and cells", []Term{
			first("ovs", 1),
			{Cell: "one/a", Metric: "transaction_rate", Power: 1},
			{Cell: "one/base", Metric: "transaction_rate", Power: -1},
		}, 12},
	} {
		got, err := c.Combine(x.terms)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if math.Abs(got.Ratio/x.want-1) > 1e-9 || got.Generations != 5 || math.IsNaN(got.Floor) || got.Floor > 1e-9 {
			t.Errorf("%s: %+v, want %g", x.name, got, x.want)
		}
	}
	if _, err := c.Combine([]Term{first("nobody", 1)}); !errors.Is(err, ErrFewGenerations) {
		t.Errorf("of a lab that there is not: %v", err)
	}
}
