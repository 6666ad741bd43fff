package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report/chart"
)

// parts returns all parts: a suite must decode with them.
func parts() experiment.Parts { return catalogue.New().Parts() }

func find(t testing.TB, name string) *Suite {
	t.Helper()
	s, err := Find(name, parts().Metrics)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func resolve(t testing.TB, s *Suite, settings ...experiment.Setting) *experiment.Resolved {
	t.Helper()
	e, err := experiment.Read(s.Name, s.Experiment, settings, parts())
	if err != nil {
		t.Fatal(err)
	}
	r, err := experiment.Resolve(e, parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every suite is complete: its experiment decodes, every figure has a cell there or a reason for having none, every
// cell has its figures or a reason for having none, and every claim has its figures.
func TestSuites(t *testing.T) {
	if len(Names()) == 0 {
		t.Fatal("no suite")
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s := find(t, name)
			r := resolve(t, s)
			if r.Experiment.Name != name {
				t.Errorf("its experiment is called %q", r.Experiment.Name)
			}
			if len(r.Omitted) > 0 {
				t.Errorf("left out: %v", r.Omitted)
			}
			run := runOf(r)
			figures := map[string]map[metricKey]bool{} // by cell; two figures may share a cell
			for _, f := range s.Figures {
				c := s.cell(&run, f.At)
				if missing := s.stack(f.At[stackOf]).Missing; (c == nil) != (missing != "") {
					t.Errorf("%v: measured in %v, and a reason why not: %q", f, c, missing)
				}
				m := s.metric(f.At[metricOf]).Here
				if c == nil || m.Lab {
					continue
				}
				if figures[c.ID] == nil {
					figures[c.ID] = map[metricKey]bool{}
				}
				figures[c.ID][metricKey{m.Metric, m.Scale}] = true
			}
			for i := range run.Cells {
				c := &run.Cells[i]
				switch n, reason := len(figures[c.ID]), s.Unpublished(c); {
				case c.Twin:
				case n == 0 && reason == "":
					t.Errorf("%s has no figure and no reason", c.ID)
				case n > 0 && reason != "":
					t.Errorf("%s has %d figures and a reason why not: %s", c.ID, n, reason)
				case n > s.metricsOf(c): // not every paper has every metric at each place
					t.Errorf("%s has %d figures of %d", c.ID, n, s.metricsOf(c))
				}
			}
			empty := s.Evaluate(run, &measure.Log{}, measure.Analyze(run, &measure.Log{}))
			for _, c := range append(empty.Checks, empty.Claims...) {
				for _, p := range c.Parts {
					if math.IsNaN(p.There) != (c.Plot != "") {
						t.Errorf("%s, %s, %s: %g in the paper's figures, and a reason why there are none: %q", c.ID, p.At, p.Of, p.There,
							c.Plot)
					}
				}
			}
			for _, c := range empty.Checks {
				if c.There != measure.Holds {
					t.Errorf("the check %s %s", c.ID, c.There)
				}
			}
		})
	}
}

// The files are YAML for every parser, not only for the one here: a value outside quotes has no ": " of its own.
func TestFilesArePlainYAML(t *testing.T) {
	for _, name := range Names() {
		for _, file := range []string{"experiment.yaml", "suite.yaml"} {
			text, err := fs.ReadFile(folders, name+"/"+file)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range ambiguous(string(text)) {
				t.Errorf("%s/%s: quote the value with a colon: %s", name, file, bad)
			}
		}
	}
	for text, want := range map[string]int{
		"a: {as: x : y, b: 1}":                     1, // which goccy/go-yaml takes for "x : y"
		"a: {as: \"x : y\", b: 'c: d'}  # e: f: g": 0,
		"a: b: c":                              1,
		"- text: >-\n    b: c: d\n  e: f":      0,
		"a: the clients' threads, {b: [c, d]}": 0,
	} {
		if got := ambiguous(text); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}

// ambiguous returns the lines in which a value outside quotes holds ": ".
func ambiguous(text string) (list []string) {
	quoted := regexp.MustCompile(`(^|[\s{\[,])("(\\.|[^"\\])*"|'[^']*')`)
	block := -1 // how far a block of text is indented less, at least
	for line := range strings.Lines(text) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if block >= 0 && indent > block || strings.TrimSpace(line) == "" {
			continue
		}
		block = -1
		bare := quoted.ReplaceAllString(line, "${1}x")
		bare, _, _ = strings.Cut(" "+bare, " #")
		bare = strings.TrimRight(bare, " \n")
		if strings.HasSuffix(bare, ">-") {
			block = indent
		}
		pieces := []string{bare}
		if strings.ContainsAny(bare, "{[") {
			pieces = strings.FieldsFunc(bare, func(r rune) bool { return strings.ContainsRune("{}[],", r) })
		}
		for _, piece := range pieces {
			if strings.Count(piece+" ", ": ") > 1 {
				list = append(list, strings.TrimSpace(line))
			}
		}
	}
	return list
}

// metricKey is a metric as it is recorded.
type metricKey struct {
	metric string
	scale  float64
}

// metricsOf returns the number of the paper's metrics that a cell has.
func (s *Suite) metricsOf(c *measure.Cell) int {
	n := 0
	for _, m := range s.Metrics {
		if c.Workload == m.Here.Workload && has(c, m.Here.Params) {
			n++
		}
	}
	return n
}

func (s *Suite) stack(name string) Stack {
	return s.Stacks[slices.IndexFunc(s.Stacks, func(x Stack) bool { return x.Name == name })]
}

// Each claim of the paper holds on its own figures, or does not, as listed.
func TestJi2019OnItsOwnFigures(t *testing.T) {
	s := find(t, "ji2019")
	if len(s.Figures) != 56 {
		t.Errorf("%d figures, want 28 rates and 28 latencies", len(s.Figures))
	}
	run := runOf(resolve(t, s))
	got := map[string]string{}
	for _, c := range s.Evaluate(run, &measure.Log{}, measure.Analyze(run, &measure.Log{})).Claims {
		got[c.ID] = finding(c.There, c.Parts, func(p Part) measure.Finding { return p.Finding }).Text
	}
	want := map[string]string{
		"payload-rate":         "holds",
		"pairs-rate":           "holds (6/6)",
		"order-rate":           "holds (8/8)",
		"gap-rate":             "holds (4/4)",
		"alike-rate":           "holds (4/4)",
		"bridge-rate":          "does not hold (6/8)",
		"bridge-pairs-rate":    "holds (2/2)",
		"bridge-small":         "holds (2/2)",
		"order-latency":        "holds (8/8)",
		"below-native":         "holds (2/2)",
		"pairs-latency":        "holds (6/6)",
		"payload-latency":      "holds (6/6)",
		"far-latency":          "holds (12/12)",
		"alike-latency":        "holds (4/4)",
		"bridge-latency":       "holds (8/8)",
		"gap-latency":          "does not hold (4/8)",
		"bridge-pairs-latency": "holds (2/2)",
		"best-rate":            "does not hold (21/24)",
		"similar-latency":      "does not hold (4/8)",
		"payload-far":          "holds (6/6)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Rate and latency of one pair agree to 1 % if both are in µs. The check would fail if they were in ms, as the paper
// writes, or if the rates of ten pairs were sums.
func TestJi2019Units(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	checks := func() map[string]measure.Finding {
		m := map[string]measure.Finding{}
		for _, c := range s.Evaluate(run, &measure.Log{}, measure.Analyze(run, &measure.Log{})).Checks {
			m[c.ID] = c.There
		}
		return m
	}
	both := func(f measure.Finding) map[string]measure.Finding {
		return map[string]measure.Finding{"one-measurement": f, "ten-pairs-are-a-mean": f}
	}
	if d := cmp.Diff(both(measure.Holds), checks()); d != "" {
		t.Error(d)
	}
	for i := range s.Figures {
		if s.Figures[i].At[metricOf] == "latency" {
			s.Figures[i].Value *= 1000
		}
	}
	if d := cmp.Diff(both(measure.DoesNotHold), checks()); d != "" {
		t.Error(d)
	}
}

// runOf returns the run.json of an experiment.
func runOf(r *experiment.Resolved) measure.Run {
	run := measure.Run{
		V: 1, Name: r.Experiment.Name, Suite: r.Experiment.Name,
		Design:  measure.Design{Precision: r.Experiment.Design.Precision},
		Metrics: parts().Metrics.All(), Experiment: json.RawMessage(wired),
	}
	for _, c := range r.Cells {
		run.Cells = append(run.Cells, c.Cell)
	}
	return run
}

// world makes trials of an experiment. value returns the rate and the round trip (s) of a cell; spread is the deviation
// of each cell in each generation.
func world(run measure.Run, generations, blocks int, spread float64,
	value func(*measure.Cell) (rate, latency float64),
) *measure.Log {
	rnd := rand.New(rand.NewPCG(1, 5))
	log := &measure.Log{}
	for g := range generations {
		own := make([]float64, len(run.Cells))
		for i := range own {
			own[i] = spread * rnd.NormFloat64()
		}
		for b := range blocks {
			drift := 0.2 * rnd.NormFloat64()
			for i := range run.Cells {
				c := &run.Cells[i]
				rate, latency := value(c)
				off := math.Exp(own[i] + drift)
				log.Trials = append(log.Trials,
					measure.Trial{Generation: g + 1, Block: g*blocks + b, Cell: c.ID, Duration: 0.1, Metrics: map[string]float64{
						rateOf(c): rate * off, "latency_mean": latency / off, "latency_p50": latency / off, "packet_rate": 1e5 * off,
					}})
			}
		}
	}
	return log
}

// rateOf returns the metric that udp-rr records.
func rateOf(c *measure.Cell) string {
	if c.Pairs == 1 {
		return "transaction_rate"
	}
	return "transaction_rate_per_pair"
}

// as returns the published values. Native with ten pairs, which was not published, is as none there.
func (s *Suite) as(run *measure.Run) func(*measure.Cell) (rate, latency float64) {
	published := map[string]float64{}
	for _, f := range s.Figures {
		if c := s.cell(run, f.At); c != nil {
			published[f.At[metricOf]+" "+c.ID] = f.Value
		}
	}
	return func(c *measure.Cell) (rate, latency float64) {
		id := strings.TrimSuffix(c.ID, "#2")
		if _, ok := published["rate "+id]; !ok {
			id = strings.Replace(id, "host/", "none/", 1)
		}
		return published["rate "+id], 2 * published["latency "+id]
	}
}

func findings(r *Result) map[string]measure.Finding {
	m := map[string]measure.Finding{}
	for _, c := range r.Claims {
		m[c.ID] = c.Here.Finding
	}
	return m
}

func evaluate(s *Suite, run measure.Run, log *measure.Log) *Result {
	return s.Evaluate(run, log, measure.Analyze(run, log))
}

// On a machine whose figures are those of the paper, every claim has the same finding as there.
func TestEvaluateInThePaper(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	r := evaluate(s, run, world(run, 10, 3, 0.0005, s.as(&run)))
	for _, c := range r.Claims {
		if c.Here.Finding != c.There {
			t.Errorf("%s: %s, in the paper it %s", c.ID, c.Here.Finding, c.There)
		}
		for _, p := range c.Parts {
			if p.Missing != "" || p.Here.Generations != 10 {
				t.Errorf("%s, %s: %q, %+v", c.ID, p.At, p.Missing, p.Here)
			}
		}
	}
}

// If all stacks are equal, a claim that they differ does not hold or cannot be told.
func TestEvaluateWhereAllIsEqual(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	r := evaluate(s, run, world(run, 10, 3, 0.005, func(*measure.Cell) (rate, latency float64) { return 2e4, 5e-5 }))
	got := findings(r)
	for _, id := range []string{"gap-rate", "gap-latency", "far-latency", "bridge-rate", "payload-far"} {
		if got[id] != measure.DoesNotHold {
			t.Errorf("%s: %s", id, got[id])
		}
	}
	for _, id := range []string{"payload-rate", "payload-latency", "alike-rate", "alike-latency", "similar-latency"} {
		if got[id] != measure.Holds {
			t.Errorf("%s: %s", id, got[id])
		}
	}
	for _, id := range []string{"order-rate", "order-latency", "below-native", "bridge-latency", "bridge-pairs-rate"} {
		if got[id] != measure.CannotTell {
			t.Errorf("%s: %s", id, got[id])
		}
	}
}

// Noise leaves claims undecided, and the result says how long a run would decide them: longer if there is more noise.
func TestEvaluateWithNoise(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	times := map[float64]float64{}
	for _, spread := range []float64{0.2, 0.4} {
		r := evaluate(s, run, world(run, 6, 3, spread, s.as(&run)))
		for _, c := range r.Claims {
			if c.ID == "below-native" {
				if c.Here.Finding != measure.CannotTell || !(c.Here.Longer > 1) {
					t.Errorf("spread %g: %+v", spread, c.Here)
				}
				times[spread] = c.Here.Longer
			}
		}
	}
	if !(times[0.4] > times[0.2]) {
		t.Error(times)
	}
}

// A run with fewer cells answers the claims about those.
func TestEvaluateWithCellsMissing(t *testing.T) {
	s := find(t, "ji2019")
	r := resolve(t, s, experiment.Setting{Flag: "--pairs", Path: "factors.pairs", Value: "[1]"})
	run := runOf(r)
	log := world(run, 10, 3, 0.0005, s.as(&run))
	res := evaluate(s, run, log)
	got := findings(res)
	for id, want := range map[string]measure.Finding{
		"payload-rate": measure.Holds, "below-native": measure.Holds, // about one pair alone
		"gap-latency": measure.DoesNotHold,                     // one pair is enough
		"order-rate":  measure.CannotTell,                      // holds for one pair
		"pairs-rate":  NotTried, "bridge-pairs-rate": NotTried, // about ten pairs
	} {
		if got[id] != want {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
	// A stack that failed is missing as well.
	for i := range log.Trials {
		if strings.HasPrefix(log.Trials[i].Cell, "macvlan/") {
			log.Trials[i].Failed = "no macvlan here"
		}
	}
	got = findings(evaluate(s, run, log))
	if got["payload-rate"] != measure.Holds || got["below-native"] != measure.CannotTell {
		t.Errorf("%v", got)
	}
	for _, c := range res.Claims {
		if c.ID == "pairs-rate" &&
			(c.Parts[0].Missing != "none, one host, 10 pairs, 28 bytes was not measured" || res.longer(c) != "") {
			t.Errorf("%q, %q", c.Parts[0].Missing, res.longer(c))
		}
	}
	// No cell of the suite is left.
	empty := measure.Run{V: 1, Cells: []measure.Cell{
		{ID: "x/same-host/1/tcp-stream", Placement: "same-host", Pairs: 1, Workload: "tcp-stream"},
	}}
	for id, f := range findings(evaluate(s, empty, &measure.Log{})) {
		if f != NotTried {
			t.Errorf("%s: %s", id, f)
		}
	}
}

// A suite measured in another mode no longer reproduces the paper.
func TestEvaluateOfAnotherMode(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	for i := range run.Cells {
		if run.Cells[i].Workload == "udp-rr" {
			run.Cells[i].Params["mode"] = "spin"
		}
	}
	for _, c := range evaluate(s, run, world(run, 5, 2, 0.001, s.as(&run))).Compare() {
		if c.Cell != nil {
			t.Fatalf("%v is taken from %s", c.At, c.Cell.ID)
		}
	}
}

func TestCompare(t *testing.T) {
	s := find(t, "ji2019")
	run := runOf(resolve(t, s))
	got := map[string]Compared{}
	for _, c := range evaluate(s, run, world(run, 8, 3, 0.001, s.as(&run))).Compare() {
		got[strings.Join([]string{c.At["metric"], c.At["stack"], c.At["placement"], c.At["pairs"], c.At["payload"]}, " ")] = c
	}
	for _, tt := range []struct {
		at, reference string
		published     float64
		there         float64
		verdict       measure.Verdict
	}{
		{"latency native same-host 1 28", "", 5.545e-6, math.NaN(), ""},
		{"latency bridge same-host 1 28", "native", 7.497e-6, 7.497 / 5.545, measure.Slower},
		{"latency macvlan same-host 1 28", "native", 4.994e-6, 4.994 / 5.545, measure.Faster},
		{"latency none same-host 10 28", "", 10.441e-6, math.NaN(), ""},
		{"latency bridge cross-host 10 28", "none", 84.277e-6, 84.277 / 55.283, measure.Slower},
		{"rate bridge cross-host 10 28", "none", 5717, 5717.0 / 8654, measure.Slower},
	} {
		c := got[tt.at]
		if c.Reference != tt.reference || math.Abs(c.Figure.Value/tt.published-1) > 1e-9 || c.Verdict != tt.verdict {
			t.Errorf("%s: %+v", tt.at, c)
		}
		if math.Abs(c.There-tt.there) > 1e-9 || math.IsNaN(c.There) != math.IsNaN(tt.there) {
			t.Errorf("%s: ratio there %g, want %g", tt.at, c.There, tt.there)
		}
		if (c.Here != nil) != (tt.reference != "") || c.Here != nil && math.Abs(c.Here.Ratio/tt.there-1) > 0.01 {
			t.Errorf("%s: %+v", tt.at, c.Here)
		}
		if math.Abs(c.Value/tt.published-1) > 0.3 { // the machine drifts
			t.Errorf("%s: value %g", tt.at, c.Value)
		}
	}
}

// Every published figure is shown as it was published, next to the measured value and in the redrawn figure, in text
// and in the words of the drawing.
func TestFiguresAreShownAsPublished(t *testing.T) {
	for _, name := range []string{"docker-network", "felter2015", "ji2019", "lezcano2007"} {
		s := find(t, name)
		run := runOf(resolve(t, s))
		r := evaluate(s, run, s.even(run, nil))
		beside, redrawn, drawn := map[string]bool{}, map[string]bool{}, ""
		for _, x := range r.Sections() {
			for _, b := range x.Blocks {
				if b.Plot != nil {
					drawn += fmt.Sprint(chart.Redraw(b.Plot))
				}
				if b.Table == nil {
					continue
				}
				for _, row := range b.Table.Rows {
					if beside[row[1].Text] = beside[row[1].Text] || x.Title == "Published and here"; x.Title != "Published and here" {
						redrawn[row[1].Text] = true
					}
				}
			}
		}
		for _, f := range s.Figures {
			m := s.metric(f.At[metricOf])
			if m.Of != "" {
				continue // shares have no unit, and are said in words
			}
			want := f.As + " " + m.In
			if !beside[want] || m.In == "" {
				t.Errorf("%s: %q is not beside what was measured", name, want)
			}
			inDrawing := slices.ContainsFunc(s.Drawings, func(d Drawing) bool {
				return slices.ContainsFunc(d.points(s), f.At.equal)
			})
			if inDrawing && (!redrawn[want] || !strings.Contains(drawn, "published: "+want+".") ||
				!strings.Contains(drawn, "published, "+m.In+" – ")) {
				t.Errorf("%s: %q is not in the redrawn figures", name, want)
			}
		}
	}
}

// Figures of several machines that are one measurement here count once: in the family of all bounds, and among the
// places of a claim.
func TestOneMeasurementCountsOnce(t *testing.T) {
	s := find(t, "lezcano2007")
	run := runOf(resolve(t, s))
	noisy := s.even(run, nil)
	rnd := rand.New(rand.NewPCG(3, 4))
	own := map[string]float64{}
	for i := range noisy.Trials {
		trial := &noisy.Trials[i]
		at := fmt.Sprint(trial.Cell, trial.Generation)
		if own[at] == 0 {
			own[at] = math.Exp(0.05 * rnd.NormFloat64())
		}
		for m := range trial.Metrics {
			trial.Metrics[m] *= own[at]
		}
	}
	all := evaluate(s, run, noisy)
	once := *s
	once.Claims = slices.Clone(s.Claims)
	for i := range once.Claims {
		each := maps.Clone(once.Claims[i].Each)
		for k, values := range each {
			each[k] = slices.DeleteFunc(slices.Clone(values), func(v string) bool {
				return strings.HasSuffix(v, "-athlon") && len(values) > 1 || strings.HasSuffix(v, "-lxc7")
			})
		}
		once.Claims[i].Each = each
	}
	few := evaluate(&once, run, noisy)
	for i, c := range all.Claims {
		if d := cmp.Diff(few.Claims[i].Here, c.Here, cmpopts.EquateApprox(0, 1e-9)); d != "" {
			t.Errorf("%s (-once +twice):\n%s", c.ID, d)
		}
		if got, want := len(c.measurements()), len(few.Claims[i].Parts); got != want {
			t.Errorf("%s: %d measurements, want %d", c.ID, got, want)
		}
	}
}

// The number of bounds of a suite, and the number of those that are of different measurements.
func TestDistinctBounds(t *testing.T) {
	for name, want := range map[string][2]int{"lezcano2007": {38, 21}, "ji2019": {170, 154}} {
		s := find(t, name)
		run := runOf(resolve(t, s))
		all, distinct := 0, map[string]bool{}
		for _, c := range evaluate(s, run, s.even(run, nil)).Claims {
			for _, p := range c.Parts {
				for _, b := range []float64{p.Bounds.Above, p.Bounds.Below} {
					if b != 0 {
						all++
						distinct[fmt.Sprint(p.terms, b)] = true
					}
				}
			}
		}
		if got := [2]int{all, len(distinct)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	_, err := Find("nobody1999", parts().Metrics)
	var unknown *UnknownError
	if !errors.As(err, &unknown) ||
		err.Error() != `unknown suite "nobody1999" (known: alibaba-eni, cilium-benchmark, cni-quick, docker-network, felter2015, ji2019, lezcano2007, seconetbench-kubernetes, seconetbench-multi, seconetbench-single)` {
		t.Errorf("%v", err)
	}
	if _, err := Find("../suite", parts().Metrics); err == nil {
		t.Error("found")
	}
}

// small is a suite in three files.
func small() fstest.MapFS {
	return fstest.MapFS{
		"p/experiment.yaml": {Data: []byte("# a paper\nname: p\n")},
		"p/figures.csv":     {Data: []byte("metric,stack,pairs,value,source\nrate,a,1,10,table 1\nrate,b,1,20,table 1\n")},
		"p/suite.yaml": {Data: []byte(`
paper: {authors: a, title: t, in: j}
stacks: [{name: a, here: [x]}, {name: b, here: [y]}]
axes: [pairs]
metrics: [{name: rate, title: Rate, unit: 1, here: {workload: w, metric: goodput, scale: 1}}]
reference: [a]
unpublished: [{where: {pairs: 2}, reason: why not}]
claims:
  - id: c
    title: t
    text: x
    each: {metric: rate, pairs: [1, 2]}
    ratios: [{over: [{stack: a}], under: [{stack: b}], above: 1}]
`)},
	}
}

// The error about an invalid folder names it.
func TestDecodeIsStrict(t *testing.T) {
	if s, err := read(small(), "p", parts().Metrics); err != nil || len(s.Figures) != 2 || len(s.Claims) != 1 ||
		s.Summary != "a paper" {
		t.Fatal(s, err)
	}
	if d := cmp.Diff([]string{"p"}, namesIn(small())); d != "" {
		t.Error(d)
	}
	for _, tt := range []struct{ file, old, new, want string }{
		{"suite.yaml", "title: t, in", "heading: t, in", "heading"},
		{"suite.yaml", "title: t, in", "in", "missing title, authors or in"},
		{"suite.yaml", "text: x", "text: x\n    untried: why", "not one of ratios and untried"},
		{"experiment.yaml", "# a paper\n", "", "not a comment"},
		{"suite.yaml", "title: Rate", "titel: Rate", "titel"},
		{"suite.yaml", "reference: [a]", "reference: [z]", `unknown stack "z" (known: a, b)`},
		{"suite.yaml", "axes: [pairs]", "axes: [pairs]\ntheirs: [plugin]", `theirs: unknown axis "plugin" (known: pairs)`},
		{"suite.yaml", "{pairs: 2}", "{pears: 2}", `unpublished: unknown coordinate "pears"`},
		{"suite.yaml", "why not", "''", "missing where or reason"},
		{"suite.yaml", "goodput", "goodputs", `"goodputs" is not a metric`},
		{"suite.yaml", "goodput", "loss", `"loss" is not a metric that is compared by ratio`},
		{"suite.yaml", "unit: 1", "unit: 0", "unit"},
		{
			"suite.yaml", "here: [y]", "here: []",
			`stack "b": give its stacks (here), or why the experiment has none (missing), or both`,
		},
		{
			"suite.yaml", "unit: 1, here", "unit: 2, of: a, here",
			`metric "rate": invalid of "a", unit 2, in "" (valid: a stack of a, b, unit 1, no in)`,
		},
		{"suite.yaml", "unit: 1, here", "unit: 1, in: pps, of: a, here", `metric "rate": invalid of "a", unit 1, in "pps"`},
		{"suite.yaml", "unit: 1, here", "unit: 1, of: c, here", `metric "rate": invalid of "c"`},
		{"suite.yaml", "{name: b", "{name: a", `stack "a" is empty or listed twice`},
		{"suite.yaml", "above: 1", "above: 0", "invalid bounds"},
		{"suite.yaml", "above: 1", "above: 2, below: 1", "invalid bounds"},
		{"suite.yaml", "above: 1", "abov: 1", "abov"},
		{"suite.yaml", "under: [{stack: b}], ", "", "give a description (as)"},
		{"suite.yaml", "over: [{stack: a}], ", "as: x, ", "over is empty"},
		{"suite.yaml", "{stack: b}", "{stack: c}", `unknown stack "c" (known: a, b)`},
		{"suite.yaml", "{stack: b}", "{stack: b, mode: x}", `unknown coordinate "mode" (known: metric, stack, pairs)`},
		{"suite.yaml", "{stack: b}", "{pairs: 1}", "a term lacks stack"},
		{"suite.yaml", "pairs: [1, 2]", "pairs: []", "empty list"},
		{"suite.yaml", "pairs: [1, 2]", "pairs: [[1]]", "not a single value"},
		{"suite.yaml", "- id: c", "- id: ''", "id is empty or already used"},
		{"figures.csv", "rate,b,1,20,table 1", "rate,b,1,20,", "no source"},
		{"figures.csv", "rate,b,1,20,table 1", "rate,b,1,-2,table 1", `"-2" is not a positive number`},
		{"figures.csv", "rate,b,1,20,table 1", `rate,b,1,"20,00",table 1`, `"20,00" is not a positive number`},
		{"figures.csv", "rate,b,1,20,table 1", `rate,b,1,"2000,000",table 1`, `"2000,000" is not a positive number`},
		{"figures.csv", "rate,b,1,20,table 1", "rate,b,1,1e3,table 1", `"1e3" is not a positive number`},
		{"figures.csv", "rate,b,1,20,table 1", "rate,b,,2,table 1", "no value for pairs"},
		{"figures.csv", "rate,b,1,20,table 1", "rate,c,1,2,table 1", `unknown stack "c"`},
		{"figures.csv", "rate,b,1,20,table 1", "rate,a,1,2,table 1", "second figure"},
		{"figures.csv", "rate,b,1,20,table 1", "rate,a,1,2", "wrong number of fields"},
		{"figures.csv", "metric,stack", "stack,metric", "needed: the columns metric,stack,pairs,value,source"},
	} {
		files := small()
		f := files["p/"+tt.file]
		if !strings.Contains(string(f.Data), tt.old) {
			t.Fatalf("no %q", tt.old)
		}
		f.Data = []byte(strings.Replace(string(f.Data), tt.old, tt.new, 1))
		_, err := read(files, "p", parts().Metrics)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `suite "p"`) {
			t.Errorf("%q for %q: %v, want %q", tt.new, tt.old, err, tt.want)
		}
	}
	for file := range small() {
		files := small()
		delete(files, file)
		if _, err := read(files, "p", parts().Metrics); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without %s: %v", file, err)
		}
	}
}

// Any contents of the files give a suite that can be evaluated, or an error.
func FuzzDecode(f *testing.F) {
	files := small()
	f.Add(files["p/suite.yaml"].Data, files["p/figures.csv"].Data)
	run := measure.Run{V: 1, Cells: []measure.Cell{
		{ID: "x/same-host/1/w", Placement: "same-host", Pairs: 1, Workload: "w", Group: "g", Primary: "goodput"},
	}}
	f.Fuzz(func(t *testing.T, text, figures []byte) {
		files := small()
		files["p/suite.yaml"].Data, files["p/figures.csv"].Data = text, figures
		s, err := read(files, "p", parts().Metrics)
		if (s == nil) == (err == nil) {
			t.Fatal(s, err)
		}
		if err == nil && len(s.Claims) < 100 {
			_ = evaluate(s, run, &measure.Log{}).Sections()
		}
	})
}
