package view_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// against compares made-up runs, the first with the others.
func against(how measure.Comparing, older *made, newer ...*made) report.Comparisons {
	var list []report.Directory
	for i, m := range newer {
		list = append(list, report.Directory{Dir: "runs/after" + strings.Repeat("+", i), Data: m.whole()})
	}
	return report.CompareAll(how, report.Directory{Dir: "runs/before", Data: older.whole()}, list...)
}

func written(t *testing.T, l report.Comparisons, format string, o report.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := view.WriteCompared(&b, format, l, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// kernels makes two runs with different kernels; everything is slower in the second.
func kernels(t *testing.T) (older, newer *made) {
	loads := []load{udprr("same-host", 1), tcpstream("same-host")}
	older = loaded(t, false, loads, map[string]map[string]float64{"bridge": bridge()})
	newer = loaded(t, true, loads, map[string]map[string]float64{"bridge": bridge()})
	newer.run.Facts["kernel"] = "6.18.1"
	return older, newer
}

// A comparison of values of runs with different kernels shows the baseline and the stacks. It says once what differs
// and what that means.
func TestCompareAbsolute(t *testing.T) {
	l := against(measure.Comparing{Absolute: true}, first(kernels(t)), second(kernels(t)))
	if err := l.Check(false); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]report.Options{"absolute": {}, "absoluteall": {All: true}} {
		text := written(t, l, "text", o)
		golden(t, "compare-"+name+".golden", text)
		tidy(t, text, o)
	}
	golden(t, "compare-absolute.md", written(t, l, "markdown", report.Options{}))
	for _, format := range []string{"text", "markdown", "html"} {
		text := strings.Join(strings.Fields(written(t, l, format, report.Options{})), " ")
		if n := strings.Count(text, "These are values, not ratios to a baseline"); n != 1 {
			t.Errorf("%s: the caveat is said %d times", format, n)
		}
	}
	var got struct {
		Compared string
		Changes  []struct {
			Cell, Verdict string
			Ratio         float64
			ValueRatio    float64 `json:"value_ratio"`
			Old           float64 `json:"old_value"`
			New           float64 `json:"new_value"`
		}
	}
	if err := json.Unmarshal([]byte(written(t, l, "json", report.Options{})), &got); err != nil {
		t.Fatal(err)
	}
	if got.Compared != "values" || len(got.Changes) != 8 {
		t.Errorf("%+v", got)
	}
	for _, c := range got.Changes {
		if x := c.New / c.Old; c.Ratio != c.ValueRatio || x/c.Ratio > 1.000001 || x/c.Ratio < 0.999999 {
			t.Errorf("%s: ratio %v, of values %v, from %v to %v", c.Cell, c.Ratio, c.ValueRatio, c.Old, c.New)
		}
	}
	// The cells must still be the same.
	older, newer := kernels(t)
	older.run.Design.TrialSeconds = map[string]float64{older.run.Cells[0].ID: 0.05}
	newer.run.Design.TrialSeconds = map[string]float64{newer.run.Cells[0].ID: 0.1}
	err := against(measure.Comparing{Absolute: true}, older, newer).Check(false)
	if !errors.Is(err, report.ErrIncomparable) || strings.Contains(err.Error(), "kernel") ||
		!strings.Contains(err.Error(), "trial length: 50 ms in OLD, 100 ms in NEW") {
		t.Errorf("%v", err)
	}
}

func first(older, _ *made) *made  { return older }
func second(_, newer *made) *made { return newer }

// Three runs: each is compared with the first, and a table has the values of all.
func TestCompareMany(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	older := loaded(t, false, loads, map[string]map[string]float64{"bridge": bridge()})
	same := loaded(t, true, loads, map[string]map[string]float64{"bridge": bridge()})
	slower := loaded(t, true, loads, map[string]map[string]float64{"bridge": worse()})
	slower.run.Cells = append(slower.run.Cells[:3:3], slower.run.Cells[4:]...) // without the routed network
	l := against(measure.Comparing{}, older, same, slower)
	text := written(t, l, "text", report.Options{})
	golden(t, "compare-three.golden", text)
	tidy(t, text, report.Options{})
	golden(t, "compare-three.md", written(t, l, "markdown", report.Options{}))
	var got struct {
		Comparisons []struct {
			New     struct{ Dir string }
			Changes []struct{ Cell string }
		}
	}
	if err := json.Unmarshal([]byte(written(t, l, "json", report.Options{})), &got); err != nil {
		t.Fatal(err)
	}
	if c := got.Comparisons; len(c) != 2 || c[1].New.Dir != "runs/after+" || len(c[0].Changes) != 4 ||
		len(c[1].Changes) != 3 {
		t.Errorf("%+v", got)
	}
	rows := table(t, []byte(written(t, l, "csv", report.Options{})))
	if len(rows) != 7 || rows[0]["new_run"] != "runs/after" || rows[6]["new_run"] != "runs/after+" {
		t.Errorf("%d rows", len(rows))
	}
}

// The page needs nothing else, and shows every figure that can be written to a file.
func TestComparePage(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		l := against(measure.Comparing{Absolute: absolute}, first(kernels(t)), second(kernels(t)), second(kernels(t)))
		page := written(t, l, "html", report.Options{})
		dir := t.TempDir()
		names, err := view.ComparedFigures(dir, l, view.Pictures{})
		if err != nil || len(names) != 8 {
			t.Fatalf("%v, %v", names, err)
		}
		if n := strings.Count(page, "<figure>"); n != 4 {
			t.Errorf("%d figures on the page", n)
		}
		for _, name := range names {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(b) < 1000 {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
		for _, want := range []string{"NEW 2 against OLD", "<svg", "what changed", "floors of both runs combined"} {
			if !strings.Contains(strings.ToLower(page), strings.ToLower(want)) {
				t.Errorf("absolute %v: the page does not have %q", absolute, want)
			}
		}
		for _, bad := range []string{"<script", "http://", "https://", "NaN", "<h2></h2>"} {
			if strings.Contains(strings.ReplaceAll(page, "http://www.w3.org/", ""), bad) {
				t.Errorf("absolute %v: the page has %q", absolute, bad)
			}
		}
		if !strings.HasSuffix(page, "</html>\n") {
			t.Error("the page is cut short")
		}
	}
}

type junit struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Skipped  int      `xml:"skipped,attr"`
	Suites   []struct {
		Name       string `xml:"name,attr"`
		Tests      int    `xml:"tests,attr"`
		Properties []struct {
			Name  string `xml:"name,attr"`
			Value string `xml:"value,attr"`
		} `xml:"properties>property"`
		Cases []struct {
			Class   string   `xml:"classname,attr"`
			Name    string   `xml:"name,attr"`
			Failure *problem `xml:"failure"`
			Error   *problem `xml:"error"`
			Skipped *problem `xml:"skipped"`
		} `xml:"testcase"`
		Out string `xml:"system-out"`
	} `xml:"testsuite"`
}

type problem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
}

func parsed(t *testing.T, l report.Comparisons, o report.Options) junit {
	t.Helper()
	var got junit
	if err := xml.Unmarshal([]byte(written(t, l, "junit", o)), &got); err != nil {
		t.Fatal(err)
	}
	failures, errs, skipped, tests := 0, 0, 0, 0
	for _, s := range got.Suites {
		if s.Tests != len(s.Cases) {
			t.Errorf("%s: %d tests, says %d", s.Name, len(s.Cases), s.Tests)
		}
		for _, c := range s.Cases {
			tests++
			for n, p := range map[*int]*problem{&failures: c.Failure, &errs: c.Error, &skipped: c.Skipped} {
				if p != nil {
					*n++
					if p.Message == "" {
						t.Errorf("%s, %s: no message", c.Class, c.Name)
					}
				}
			}
		}
	}
	if got.Tests != tests || got.Failures != failures || got.Errors != errs || got.Skipped != skipped {
		t.Errorf("says %d tests, %d failures, %d errors, %d skipped; has %d, %d, %d, %d", got.Tests, got.Failures, got.Errors,
			got.Skipped, tests, failures, errs, skipped)
	}
	return got
}

func TestCompareJUnit(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	run := func(second bool, change map[string]map[string]float64) *made {
		m := start(t, loads, "host", "bridge", "routed", "nat")
		if second {
			again(m)
		}
		m.measure(loads, 5, 8, change)
		for i := range m.log.Trials {
			if x := &m.log.Trials[i]; second && strings.HasPrefix(x.Cell, "nat") {
				x.Metrics, x.Failed = nil, "no answer <within> 2 s"
			}
		}
		return m
	}
	older, newer := run(false, map[string]map[string]float64{"bridge": bridge()}),
		run(true, map[string]map[string]float64{"bridge": worse()})
	l := against(measure.Comparing{}, older, newer)
	got := parsed(t, l, report.Options{})
	if len(got.Suites) != 1 || got.Tests != 4 || got.Failures != 1 || got.Errors != 1 {
		t.Fatalf("%+v", got)
	}
	for _, c := range got.Suites[0].Cases {
		stack, _, _ := strings.Cut(c.Class, "/")
		if (c.Failure != nil) != (stack == "bridge") || (c.Error != nil) != (stack == "nat") || c.Name != "latency p50" {
			t.Errorf("%+v", c)
		}
		if c.Failure != nil && (c.Failure.Type != "slower" || !strings.Contains(c.Failure.Message, " +10.0 % (95 % interval ")) {
			t.Errorf("%+v", c.Failure)
		}
	}
	if all := parsed(t, l, report.Options{All: true}); all.Tests < 15 {
		t.Errorf("%d cases of all metrics", all.Tests)
	}

	// With gates, only these decide, and the metrics that they name are included.
	gates, err := report.ParseGates([]string{"latency_p50>+20%,transaction_rate<x0.98"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Judge(gates); err != nil {
		t.Fatal(err)
	}
	if got := parsed(t, l, report.Options{}); got.Failures != 0 || got.Tests != 7 {
		t.Errorf("%d failures of %d", got.Failures, got.Tests)
	}
	// An undecided case is skipped, with the reason.
	short := run(true, nil)
	short.log.Trials = short.log.Trials[:len(short.log.Trials)*3/5]
	few := parsed(t, against(measure.Comparing{}, older, short), report.Options{})
	if few.Skipped != 2 || few.Failures != 0 {
		t.Errorf("%+v", few)
	}
}

// Gates find changes in any comparison, and do not find noise.
func TestGates(t *testing.T) {
	loads := []load{udprr("same-host", 1), udprate("28")}
	older := loaded(t, false, loads, map[string]map[string]float64{"bridge": bridge()})
	newer := loaded(t, true, loads, map[string]map[string]float64{"bridge": {"latency_p50": 1.2, "loss": 0.05}})
	l := against(measure.Comparing{}, older, newer)
	for _, tt := range []struct {
		gate    string
		cells   string // stacks at which it fails
		untold  int
		message string
	}{
		{"slower", "host bridge host", 0, `--fail-on slower: 3 of the cells in "runs/after" are worse than in "runs/before": `},
		{"worse", "host bridge host", 0, ""},
		{"toll", "bridge", 0, `--fail-on toll: 1 of the cells in `},
		{"undecided", "", 0, ""},
		{"latency_p50>+8%", "bridge", 1, `--fail-on "latency_p50>+8%": 1 cell in "runs/after" beyond it, against "runs/before": `},
		{"latency_p50>+3%", "host bridge", 0, ""},
		{"latency_p50 > x1.03", "host bridge", 0, ""},
		{"latency_p50>8 %, undecided", "bridge host", 1, ""},
		{"latency_p50>+30%", "", 0, ""},
		{"latency_p50<-3%", "", 0, ""},
		{"latency_p50<+50%", "host bridge routed", 0, ""},
		{"loss>+0.5points", "bridge bridge", 0, ""},
		{"loss>+0.5point,latency_p50>+50%", "bridge bridge", 0, ""},
		{"loss>+20points", "", 0, ""},
	} {
		gates, err := report.ParseGates([]string{tt.gate})
		if err != nil {
			t.Error(err)
			continue
		}
		if err := l.Judge(gates); err != nil {
			t.Error(err)
			continue
		}
		var cells []string
		untold := 0
		for _, f := range l[0].Found {
			stack, _, _ := strings.Cut(f.Change.Cell.ID, "/")
			switch f.Finding {
			case measure.Holds:
				cells = append(cells, stack)
			case measure.CannotTell:
				untold++
			case measure.DoesNotHold:
			}
		}
		if got := strings.Join(cells, " "); got != tt.cells || untold != tt.untold {
			t.Errorf("%s: fails in %q and cannot be told of %d, want %q and %d", tt.gate, got, untold, tt.cells, tt.untold)
		}
		failures := l.Failures()
		if (len(failures) > 0) != (tt.cells != "") || tt.message != "" && !strings.HasPrefix(failures[0], tt.message) {
			t.Errorf("%s: %q", tt.gate, failures)
		}
		if said := l.Untold(); (len(said) > 0) != (untold > 0) {
			t.Errorf("%s: %q", tt.gate, said)
		}
	}
}

func TestGatesErrors(t *testing.T) {
	for text, want := range map[string]string{
		"faster": `unknown --fail-on "faster" (known: slower, worse, toll, undecided, leak; or an expression such as METRIC>+5%, ` +
			`METRIC<-3%, METRIC>x1.2, METRIC>+0.5points)`,
		"":                    `unknown --fail-on "" (known: `,
		"slower,":             `unknown --fail-on "" (known: `,
		"latency_p50>=5%":     `unknown --fail-on "latency_p50>=5%" (known: `,
		"latency_p50>5ms":     `unknown --fail-on "latency_p50>5ms" (known: `,
		"latency_p50>x-2":     `unknown --fail-on "latency_p50>x-2": a factor is a number above 0 without sign and unit, such as x1.2`,
		"latency_p50>x0":      `unknown --fail-on "latency_p50>x0": a factor is`,
		"goodput<-100%":       `unknown --fail-on "goodput<-100%": nothing falls by 100 % or more (valid: above -100%)`,
		"latency_p49>+5%":     `unknown --fail-on "latency_p49>+5%": the runs have no metric "latency_p49" (known: `,
		"latency_p50>+5":      `unknown --fail-on "latency_p50>+5": latency_p50 is compared by ratio (valid: latency_p50>+5% or latency_p50>x1.05)`,
		"loss>+5%":            `unknown --fail-on "loss>+5%": loss is compared by difference (valid: loss>+0.5points)`,
		"loss>x2":             `unknown --fail-on "loss>x2": loss is compared by difference (valid: loss>+0.5points)`,
		"retransmits>2points": `unknown --fail-on "retransmits>2points": retransmits is compared by difference (valid: retransmits>+2)`,
	} {
		gates, err := report.ParseGates([]string{text})
		if err == nil {
			loads := []load{udprr("same-host", 1), tcpstream("same-host")}
			err = against(measure.Comparing{}, loaded(t, false, loads, nil), loaded(t, true, loads, nil)).Judge(gates)
		}
		if !errors.Is(err, report.ErrGate) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Stacks that each run compares directly are also compared between the runs, unless values are compared.
func TestCompareDirect(t *testing.T) {
	for absolute, want := range map[bool]int{false: 2, true: 0} {
		l := against(measure.Comparing{Absolute: absolute}, first(kernels(t)), second(kernels(t)))
		var got struct {
			Direct []struct {
				Type, Cell, Over, Baseline, Verdict string
				Ratio                               float64
				OldRatio                            float64 `json:"old_ratio"`
				NewRatio                            float64 `json:"new_ratio"`
				OldValue                            any     `json:"old_value"`
			}
		}
		if err := json.Unmarshal([]byte(written(t, l, "json", report.Options{})), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Direct) != want {
			t.Errorf("absolute %v: %+v", absolute, got)
		}
		for _, d := range got.Direct {
			if d.Type != "direct" || !strings.HasPrefix(d.Cell, "routed/") || !strings.HasPrefix(d.Over, "bridge/") ||
				d.Baseline != "" || d.OldValue != nil || math.Abs(d.NewRatio/d.OldRatio/d.Ratio-1) > 1e-9 ||
				d.Verdict != string(measure.NoDifference) {
				t.Errorf("%+v", d)
			}
		}
	}
}

// If the machine was busy in the newer run, whether its baseline became slower cannot be told: all views say so and
// what to do, and a gate passes with a note.
func TestCompareBusy(t *testing.T) {
	older, newer := kernels(t)
	newer.run.Facts["kernel"] = older.run.Facts["kernel"]
	newer.log.Blocks = []measure.BlockFacts{{Duration: 1, Others: 1, CPU: map[string]float64{"steal": 0.25}}}
	l := against(measure.Comparing{}, older, newer)
	gates, err := report.ParseGates([]string{"slower"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Judge(gates); err != nil {
		t.Fatal(err)
	}
	if got := l.Failures(); got != nil {
		t.Errorf("fails: %q", got)
	}
	if got := strings.Join(l.Untold(), "\n"); !strings.Contains(got, "--fail-on slower: cannot be told of 2 baselines") {
		t.Errorf("not told: %q", got)
	}
	for _, format := range []string{"text", "markdown", "html"} {
		text := strings.Join(strings.Fields(written(t, l, format, report.Options{})), " ")
		const want = "cannot be told: other programs and the hypervisor took no CPU in OLD and 1.2 CPUs in NEW; " +
			"measure NEW again with nothing else at work."
		if !strings.Contains(text, want) || strings.Contains(text, "The baseline itself became") {
			t.Errorf("%s:\n%s", format, text)
		}
	}
	if text := written(t, l, "junit", report.Options{}); !strings.Contains(text, `tests="6" failures="0"`) ||
		strings.Count(text, "--fail-on slower") != 2 {
		t.Error(text)
	}
	unsure := 0
	for _, row := range table(t, []byte(written(t, l, "csv", report.Options{}))) {
		if row["shift_unsure"] == "slower" && row["old_load"] == "0" && row["new_load"] == "1.25" && row["shift"] == "" {
			unsure++
		}
	}
	if lines := written(t, l, "jsonl", report.Options{}); unsure != 2 ||
		strings.Count(lines, `"shift_unsure":"slower"`) != 2 {
		t.Errorf("%d rows\n%s", unsure, lines)
	}
	if gates, err = report.ParseGates([]string{"undecided"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Judge(gates); err != nil || len(l.Failures()) != 1 {
		t.Errorf("%v, %q", err, l.Failures())
	}
}
