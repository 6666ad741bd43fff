package measure

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// latencies returns an encoded histogram of n samples around 10 µs times factor.
func latencies(t testing.TB, seed uint64, n int, factor float64) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	h := hdrhistogram.New(1, 10_000_000_000, 3)
	for range n {
		if err := h.RecordValue(int64(10_000 * factor * math.Exp(0.2*r.NormFloat64()))); err != nil {
			t.Fatal(err)
		}
	}
	s, err := EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// constant returns an encoded histogram of n samples of the same value.
func constant(t testing.TB, n, ns int64) Histograms {
	t.Helper()
	h := hdrhistogram.New(1, 10_000_000_000, 3)
	if err := h.RecordValues(ns, n); err != nil {
		t.Fatal(err)
	}
	s, err := EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	return Histograms{Samples: n, Data: s}
}

func TestLatencyGroups(t *testing.T) {
	h := func(g, first, last int, n, ns int64) Histograms {
		h := constant(t, n, ns)
		h.Generation, h.First, h.Last = g, first, last
		return h
	}
	for _, tt := range []struct {
		name           string
		cell, baseline []Histograms
		want           []QuantileGroup // of p90: 1000 samples
	}{
		{"nothing", nil, nil, nil},
		{
			"each large enough",
			[]Histograms{h(0, 1, 4, 1000, 500), h(0, 5, 8, 2000, 700)},
			[]Histograms{h(0, 5, 8, 1000, 350), h(0, 1, 4, 1000, 250)},
			[]QuantileGroup{{0, 1, 4, 500e-9, 250e-9, 1000, 1000}, {0, 5, 8, 700e-9, 350e-9, 2000, 1000}},
		},
		{
			"merged until both are",
			[]Histograms{h(0, 1, 4, 1000, 500), h(0, 5, 8, 1000, 500)},
			[]Histograms{h(0, 1, 4, 500, 250), h(0, 5, 8, 500, 250)},
			[]QuantileGroup{{0, 1, 8, 500e-9, 250e-9, 2000, 1000}},
		},
		{
			"the rest joins the last group",
			[]Histograms{h(0, 1, 4, 1000, 500), h(0, 5, 8, 10, 500)},
			[]Histograms{h(0, 1, 4, 1000, 250), h(0, 5, 8, 10, 250)},
			[]QuantileGroup{{0, 1, 8, 500e-9, 250e-9, 1010, 1010}},
		},
		{
			"never over generations",
			[]Histograms{h(0, 1, 4, 600, 500), h(1, 5, 8, 600, 500), h(2, 9, 9, 1000, 500)},
			[]Histograms{h(0, 1, 4, 600, 250), h(1, 5, 8, 600, 250), h(2, 9, 9, 1000, 250)},
			[]QuantileGroup{{2, 9, 9, 500e-9, 250e-9, 1000, 1000}},
		},
		{
			"different boundaries",
			[]Histograms{h(0, 1, 8, 2000, 500)},
			[]Histograms{h(0, 1, 4, 1000, 250), h(0, 5, 8, 1000, 250)},
			[]QuantileGroup{{0, 1, 8, 500e-9, 250e-9, 2000, 2000}},
		},
		{"different blocks", []Histograms{h(0, 1, 4, 2000, 500)}, []Histograms{h(0, 5, 8, 2000, 250)}, nil},
		{"boundaries that never meet", []Histograms{h(0, 1, 4, 2000, 500)}, []Histograms{h(0, 1, 8, 2000, 250)}, nil},
		{
			"recorded twice",
			[]Histograms{h(0, 1, 4, 5, 100), h(0, 1, 4, 1000, 500)},
			[]Histograms{h(0, 1, 4, 1000, 250)},
			[]QuantileGroup{{0, 1, 4, 500e-9, 250e-9, 1000, 1000}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := LatencyGroups(tt.cell, tt.baseline, 0.9)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-3, 0)); d != "" {
				t.Error(d)
			}
		})
	}
	for _, bad := range []string{"", "x", "HISTFAAA", "HISTFAAAABl42pNpmSzMwMDAxAABzFCaEUzOZ8ABAKXTAhE="} {
		if _, err := LatencyGroups([]Histograms{{Cell: "c", Data: bad}}, nil, 0.9); err == nil {
			t.Errorf("no error for the histogram %q", bad)
		}
	}
	for _, tt := range []struct {
		q    float64
		want int64
	}{{0.5, 200}, {0.9, 1000}, {0.99, 10_000}, {0.999, 100_000}} {
		if got := MinSamples(tt.q); got != tt.want {
			t.Error(tt.q, got)
		}
	}
}

// play makes a run of one group: base, twin and the cells "fast" (20 % more), "equal" and "noisy", with small noise.
func play(t testing.TB, generations, blocks int) (Run, *Log) {
	t.Helper()
	run := Run{V: 1, Design: Design{Precision: 0.02}, Cells: []Cell{
		{ID: "base", Group: "g", Primary: "goodput"},
		{ID: "base#2", Baseline: "base", Twin: true, Group: "g", Primary: "goodput"},
		{ID: "fast", Baseline: "base", Group: "g", Primary: "goodput"},
		{ID: "equal", Baseline: "base", Group: "g", Primary: "goodput"},
		{ID: "noisy", Baseline: "base", Group: "g", Primary: "goodput"},
	}}
	factor := map[string]float64{"fast": 1.2, "base": 1, "base#2": 1, "equal": 1, "noisy": 1}
	sd := map[string]float64{"fast": 0.01, "base": 0.01, "base#2": 0.01, "equal": 0.01, "noisy": 1}
	r := rand.New(rand.NewPCG(8, 9))
	log := &Log{}
	for g := range generations {
		for b := range blocks {
			drift := math.Exp(0.3 * r.NormFloat64()) // common to all cells of the block
			for _, i := range r.Perm(len(run.Cells)) {
				id := run.Cells[i].ID
				x := factor[id] * math.Exp(sd[id]*r.NormFloat64()) * drift
				log.Trials = append(log.Trials,
					Trial{Generation: g, Block: g*blocks + b, Cell: id, Duration: 0.05, Metrics: map[string]float64{
						"goodput": 1e9 * x, "packet_rate_sent": 1e5 * x, "latency_p50": 1e-5 / x, "loss": 0, "cpu_busy": 1.5,
					}})
			}
		}
		for i, c := range run.Cells {
			log.Histograms = append(log.Histograms, Histograms{
				Generation: g, First: g * blocks, Last: g*blocks + blocks - 1, Cell: c.ID,
				Data: latencies(t, uint64(g*10+i), 12_000, 1/factor[c.ID]),
			})
		}
	}
	return run, log
}

func TestAnalyze(t *testing.T) {
	run, log := play(t, 10, 8)
	log.Proofs = []Proof{{Lab: "g", Claim: "passes", OK: true}}
	log.Facts = []Fact{{Key: "mtu"}}
	log.Warnings = []Warning{{Text: "of the log"}}
	log.Trials[3].Warnings = []string{"stolen"}
	a := Analyze(run, log)

	type line struct {
		Cell, Metric string
		Verdict      Verdict
		Ratio        string
	}
	var got []line
	for _, r := range a.Rows {
		l := line{r.Cell.ID, r.Metric, r.Verdict, ""}
		switch {
		case r.HasRatio:
			l.Ratio = fmt.Sprintf("%.1f", r.Estimate.Ratio)
		case r.HasDifference:
			l.Ratio = fmt.Sprintf("%+.1f", r.Difference.Points)
		}
		if r.Cell.ID != "noisy" {
			got = append(got, l)
		} else if r.Metric == "goodput" && r.Verdict != NotPrecise {
			t.Errorf("noisy: %+v", r)
		}
	}
	want := []line{}
	for _, cell := range []string{"base", "base#2", "fast", "equal"} {
		for _, m := range []string{
			"goodput", "packet_rate_sent", "loss", "latency_p50", "latency_p75", "latency_p90", "latency_p95", "latency_p99",
			"cpu_busy",
		} {
			l := line{cell, m, NoDifference, "1.0"}
			if m == "loss" {
				l.Ratio = "+0.0"
			}
			switch {
			case cell == "base":
				l.Verdict, l.Ratio = IsBaseline, ""
			case cell == "base#2":
				l.Verdict = IsTwin
			case cell == "fast" && m == "packet_rate_sent":
				l.Verdict, l.Ratio = Higher, "1.2"
			case cell == "fast" && m == "goodput":
				l.Verdict, l.Ratio = Faster, "1.2"
			case cell == "fast" && m != "loss" && m != "cpu_busy":
				l.Verdict, l.Ratio = Faster, "0.8"
			}
			want = append(want, l)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if a.Blocks != 80 || a.Generations != 10 || a.Trials != 400 || math.Abs(a.Measured-20) > 1e-9 || len(a.Failed) > 0 ||
		len(a.Floors) != 9 {
		t.Errorf("%d blocks, %d generations, %d trials, %g s, failed %v, floors %v", a.Blocks, a.Generations, a.Trials,
			a.Measured, a.Failed, a.Floors)
	}
	wantWarnings := []Warning{
		{Text: "of the log"}, {Type: "warning", V: Version, Cell: log.Trials[3].Cell, Text: "stolen (1 of 80 trials)"},
	}
	if d := cmp.Diff(wantWarnings, a.Warnings); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(log.Proofs, a.Proofs); d != "" {
		t.Error(d)
	}
	r := a.Rows[9] // goodput of the twin
	if r.Blocks != 80 || r.Generations != 10 || r.Floor <= 0 || r.Floor > 0.02 || r.Floor != Floor(r.Estimate) ||
		r.Unit != UnitBit || math.Abs(math.Log(r.Value/1e9)) > 0.2 {
		t.Errorf("%+v", r)
	}
	if d := cmp.Diff(cmp.Diff(Estimate{}, r.Estimate) != "", true); d != "" {
		t.Error(d)
	}
}

func row(t *testing.T, a Analysis, cell, metric string) Row {
	t.Helper()
	for _, r := range a.Rows {
		if r.Cell.ID == cell && r.Metric == metric {
			return r
		}
	}
	t.Fatalf("no row for %s of %s", metric, cell)
	return Row{}
}

func TestAnalyzePartial(t *testing.T) {
	t.Run("nothing", func(t *testing.T) {
		run, _ := play(t, 0, 0)
		a := Analyze(run, &Log{})
		if len(a.Failed) != 5 || len(a.Rows) != 5 || a.Rows[0].Verdict != HasFailed ||
			a.Failed[0].Reason != "no trial was recorded" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("one generation", func(t *testing.T) {
		run, log := play(t, 1, 4)
		r := row(t, Analyze(run, log), "fast", "goodput")
		if r.HasRatio || r.Verdict != TooFew || r.Generations != 1 || r.Blocks != 4 || !finite(r.Value) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("too few generations", func(t *testing.T) {
		for generations, want := range map[int]Verdict{LeastGenerations - 1: TooFew, LeastGenerations: Faster} {
			run, log := play(t, generations, 40)
			a := Analyze(run, log)
			r := row(t, a, "fast", "goodput")
			if !r.HasRatio || r.Verdict != want || math.IsNaN(r.Floor) != (want == TooFew) || !finite(r.AdjLo) {
				t.Errorf("%d generations: %+v, want the verdict %q", generations, r, want)
			}
			if (len(a.Floors) == 0) != (want == TooFew) {
				t.Errorf("%d generations: floors %+v", generations, a.Floors)
			}
		}
	})
	t.Run("a cut generation", func(t *testing.T) {
		run, log := play(t, 6, 8)
		log.Trials = log.Trials[:5*(5*8+3)] // 3 of 8 blocks
		if r := row(t, Analyze(run, log), "fast", "goodput"); r.Generations != 5 || r.Blocks != 40 {
			t.Errorf("%+v", r)
		}
		run, log = play(t, 6, 8)
		log.Trials = log.Trials[:5*(5*8+4)] // 4 of 8 blocks
		if r := row(t, Analyze(run, log), "fast", "goodput"); r.Generations != 6 || r.Blocks != 44 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("missing and failed blocks", func(t *testing.T) {
		run, log := play(t, 5, 4)
		var kept []Trial
		for _, x := range log.Trials {
			switch {
			case strings.HasPrefix(x.Cell, "base") && x.Block == 0: // missing
				continue
			case x.Cell == "base" && x.Block == 1:
				x.Failed = "broke"
			case x.Cell == "base#2" && x.Block == 1:
				continue
			case x.Cell == "base" && x.Block == 3: // its twin is enough
				continue
			case x.Cell == "equal":
				x.Failed, x.Metrics = "refused", nil
			case x.Cell == "fast" && x.Block == 2:
				x.Failed = "broke"
			}
			kept = append(kept, x)
		}
		kept = append(kept, Trial{Cell: "stranger", Metrics: map[string]float64{"goodput": 1}})
		log.Trials = kept
		a := Analyze(run, log)
		if r := row(t, a, "fast", "goodput"); r.Blocks != 17 {
			t.Errorf("%+v", r)
		}
		if r := row(t, a, "noisy", "goodput"); r.Blocks != 18 {
			t.Errorf("%+v", r)
		}
		if r := row(t, a, "equal", "goodput"); r.Verdict != HasFailed {
			t.Errorf("%+v", r)
		}
		if d := cmp.Diff([]FailedCell{{"equal", "refused", 20}}, a.Failed); d != "" {
			t.Error(d)
		}
		var texts []string
		for _, w := range a.Warnings {
			texts = append(texts, w.Cell+": "+w.Text)
		}
		want := []string{
			`: 1 trials of cell "stranger", which run.json does not name, are not used: restore the run.json of these records, or measure again`,
			"base: 1 of 18 trials failed: broke: look for the cause with nettoll lab up",
			"fast: 1 of 20 trials failed: broke: look for the cause with nettoll lab up",
		}
		if d := cmp.Diff(want, texts); d != "" {
			t.Error(d)
		}
	})
	t.Run("no twin", func(t *testing.T) {
		run, log := play(t, 5, 4)
		run.Cells[1].Twin, run.Cells[1].Group = false, "other"
		if r := row(t, Analyze(run, log), "fast", "goodput"); r.Verdict != NotPrecise || !math.IsNaN(r.Floor) || !r.HasRatio {
			t.Errorf("%+v", r)
		}
	})
	t.Run("no baseline", func(t *testing.T) {
		run, log := play(t, 5, 4)
		run.Cells[2].Baseline = "gone"
		a := Analyze(run, log)
		if r := row(t, a, "fast", "goodput"); r.HasRatio || r.Verdict != NotPrecise {
			t.Errorf("%+v", r)
		}
		if len(a.Warnings) != 1 {
			t.Error(a.Warnings)
		}
	})
	t.Run("a busy machine", func(t *testing.T) {
		run, log := play(t, 5, 4)
		if r := row(t, Analyze(run, log), "fast", "goodput"); r.Verdict != Faster || r.Moved != 0 {
			t.Errorf("%+v", r)
		}
		run.Facts = map[string]any{"cpus": 2}
		log.Blocks = []BlockFacts{{Duration: 1, Others: 1.5}}
		a := Analyze(run, log)
		r := row(t, a, "fast", "goodput")
		if r.Verdict != TooNoisy || r.Moved != -math.Log(0.25) || !math.IsInf(r.Longer(run.Design.Equal()), 1) {
			t.Errorf("%+v", r)
		}
		if r := row(t, a, "fast", "loss"); r.Moved != 0 { // compared by difference
			t.Errorf("%+v", r)
		}
		for _, d := range a.Direct(func(_, _ *Cell) bool { return true }) {
			if Differs(d.Verdict) {
				t.Errorf("%+v", d)
			}
		}
	})
	t.Run("zeros", func(t *testing.T) {
		run, log := play(t, 5, 4)
		for _, x := range log.Trials {
			if x.Cell == "fast" && (x.Generation == 2 || x.Block == 0) {
				x.Metrics["goodput"] = 0
			}
			if x.Cell == "equal" {
				x.Metrics["loss"] = 0.25
			}
			x.Metrics["cpu_busy"] = 0
		}
		a := Analyze(run, log)
		if r := row(t, a, "fast", "goodput"); r.HasRatio || r.Verdict != NotPrecise {
			t.Errorf("%+v", r)
		}
		if r := row(t, a, "equal", "loss"); !r.HasDifference || r.Difference.Points != 0.25 || r.Verdict != Higher ||
			r.Value != 0.25 {
			t.Errorf("%+v", r)
		}
		if r := row(t, a, "equal", "cpu_busy"); r.HasRatio || r.Value != 0 {
			t.Errorf("%+v", r)
		}
		if len(a.Warnings) != 1 {
			t.Error(a.Warnings)
		}
	})
	t.Run("resumed in the middle of a block", func(t *testing.T) {
		run, log := play(t, 5, 4)
		again := log.Trials[0]
		again.Failed = "interrupted"
		log.Trials = append([]Trial{again}, log.Trials...)
		if a := Analyze(run, log); len(a.Warnings) > 0 || row(t, a, again.Cell, "goodput").Blocks != 20 {
			t.Error(a.Warnings)
		}
	})
	t.Run("a damaged histogram", func(t *testing.T) {
		run, log := play(t, 5, 4)
		log.Histograms[2].Data = "x"
		a := Analyze(run, log)
		if len(a.Warnings) != 1 || a.Warnings[0].Cell != "fast" {
			t.Error(a.Warnings)
		}
		row(t, a, "fast", "latency_p50")
	})
	t.Run("too few samples for some medians", func(t *testing.T) {
		run, log := play(t, 5, 8)
		for i, x := range log.Trials {
			if x.Cell == "equal" && i%3 == 0 {
				delete(x.Metrics, "latency_p50")
			}
		}
		// From the histograms then, of which there is one a generation.
		if r := row(t, Analyze(run, log), "equal", "latency_p50"); r.Blocks != 5 || !r.HasRatio {
			t.Errorf("%+v", r)
		}
	})
}

// largeRun is a run of 100,000 trials and its records.
func largeRun(t testing.TB) (Run, []byte) {
	t.Helper()
	const trials = 100_000
	var run Run
	var b bytes.Buffer
	w := NewWriter(&b)
	for i := range trials {
		x := exampleTrial(i)
		x.Generation = i / 2000 // 200 blocks of 10 cells
		if i < 10 {
			c := Cell{ID: x.Cell, Baseline: exampleTrial(0).Cell, Group: "g", Twin: i == 1}
			if i == 0 {
				c.Baseline = ""
			}
			run.Cells = append(run.Cells, c)
		}
		if err := w.Write(x); err != nil {
			t.Fatal(err)
		}
	}
	data := latencies(t, 1, 20_000, 1)
	for g := range trials / 2000 {
		for c := range 10 {
			for k := range 5 { // of 40 blocks
				if err := w.Write(Histograms{
					Generation: g, First: g*200 + k*40, Last: g*200 + k*40 + 39, Cell: exampleTrial(c).Cell, Samples: 20_000,
					Data: data,
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.Sum(); err != nil {
		t.Fatal(err)
	}
	return run, b.Bytes()
}

func TestLargeRun(t *testing.T) {
	run, records := largeRun(t)
	log, problems, err := Read(bytes.NewReader(records))
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	a := Analyze(run, log)
	if r := row(t, a, run.Cells[5].ID, "transaction_rate"); r.Blocks != 10_000 || r.Generations != 50 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkRead(b *testing.B) {
	_, records := largeRun(b)
	for b.Loop() {
		if _, _, err := Read(bytes.NewReader(records)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAnalyze(b *testing.B) {
	run, records := largeRun(b)
	log, _, err := Read(bytes.NewReader(records))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Analyze(run, log)
	}
}

// Durations other than latencies are in no trial: their mean and percentiles come from their histograms, one for each
// generation.
func TestOtherDurations(t *testing.T) {
	run := Run{Cells: []Cell{
		{ID: "host", Group: "g", Primary: "latency_p50"},
		{ID: "host#2", Group: "g", Primary: "latency_p50", Baseline: "host", Twin: true},
		{ID: "bridge", Group: "g", Primary: "latency_p50", Baseline: "host"},
	}}
	log := &Log{}
	for g := range 6 {
		for _, c := range run.Cells {
			factor := 1.0
			if c.ID == "bridge" {
				factor = 2
			}
			for block := range 4 {
				log.Trials = append(log.Trials, Trial{
					Generation: g, Block: 4*g + block, Cell: c.ID, Metrics: map[string]float64{"latency_p50": 1e-5 * factor},
				})
			}
			data := latencies(t, uint64(g), 20_000, factor) // about exp(N(ln 10 µs, 0.2))
			log.Histograms = append(log.Histograms, Histograms{
				Generation: g, First: 4 * g, Last: 4*g + 3, Cell: c.ID, Metric: "service_time", Samples: 20_000, Data: data,
			})
		}
	}
	want := map[string]float64{"service_time_mean": 20.4e-6, "service_time_p50": 20e-6, "service_time_p99": 31.8e-6}
	for _, r := range Analyze(run, log).Rows {
		value, of := want[r.Metric]
		if !of || r.Cell.ID != "bridge" {
			continue
		}
		delete(want, r.Metric)
		if math.Abs(r.Value/value-1) > 0.02 || !r.HasRatio || math.Abs(r.Estimate.Ratio-2) > 0.02 {
			t.Errorf("%s: %v, ratio %+v; want %v and a ratio of 2", r.Metric, r.Value, r.Estimate, value)
		}
	}
	if len(want) > 0 {
		t.Errorf("not in the analysis: %v", want)
	}
}
