package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// again makes a second run of the same kind, on a day when the machine is a tenth slower.
func again(m *made) *made {
	m.rnd = rand.New(rand.NewPCG(5, 6))
	m.run.Started = m.run.Started.Add(26 * time.Hour)
	m.run.Design.Seed = 8
	return m
}

// slowDay makes the values of every cell worse by a tenth.
func (m *made) slowDay() {
	for _, t := range m.log.Trials {
		for k := range t.Metrics {
			switch {
			case k == "goodput" || strings.Contains(k, "rate"):
				t.Metrics[k] /= 1.1
			case strings.HasPrefix(k, "latency") || strings.HasPrefix(k, "cpu"):
				t.Metrics[k] *= 1.1
			}
		}
	}
}

// whole returns the run as if it had been loaded.
func (m *made) whole() *report.Data {
	return &report.Data{Run: m.run, Log: &m.log, Analysis: m.analysis()}
}

// loaded is a run of a bridge and a routed network under loads, with the given changes.
func loaded(t testing.TB, second bool, loads []load, change map[string]map[string]float64) *made {
	m := start(t, loads, "host", "bridge", "routed")
	if second {
		again(m)
	}
	m.measure(loads, 5, 8, change)
	m.prove(5, "before", "after")
	m.log.Facts = []measure.Fact{{Key: "congestion_control", Value: "cubic"}}
	if second {
		m.slowDay()
	}
	return m
}

// worse has the changes of a bridge that became slower since bridge().
func worse() map[string]float64 {
	b := bridge()
	b["latency_p50"], b["goodput"], b["cpu_per_packet"] = 1.2, 0.75, 1.16
	return b
}

func TestCompareText(t *testing.T) {
	three := []load{udprr("same-host", 1), udprr("cross-host", 1), tcpstream("same-host")}
	old := func(t *testing.T, loads []load) *made {
		return loaded(t, false, loads, map[string]map[string]float64{"bridge": bridge()})
	}
	for _, tt := range []struct {
		name    string
		make    func(t *testing.T) (older, newer *made)
		options report.Options
		format  string
	}{
		{"usual", func(t *testing.T) (older, newer *made) {
			return old(t, three), loaded(t, true, three, map[string]map[string]float64{"bridge": worse()})
		}, report.Options{}, "text"},
		{"equal", func(t *testing.T) (older, newer *made) {
			return old(t, three), loaded(t, true, three, map[string]map[string]float64{"bridge": bridge()})
		}, report.Options{}, "text"},
		{"same", func(t *testing.T) (older, newer *made) {
			return old(t, three[:1]), old(t, three[:1])
		}, report.Options{}, "text"},
		{"all", func(t *testing.T) (older, newer *made) {
			return old(t, three[2:]), loaded(t, true, three[2:], map[string]map[string]float64{"bridge": worse()})
		}, report.Options{All: true}, "text"},
		{"color", func(t *testing.T) (older, newer *made) {
			faster := bridge()
			faster["goodput"] = 1.2
			return old(t, three[2:]),
				loaded(t, true, three[2:], map[string]map[string]float64{"bridge": faster, "routed": {"goodput": 0.9}})
		}, report.Options{Color: true}, "text"},
		{"narrow", func(t *testing.T) (older, newer *made) {
			return old(t, three), loaded(t, true, three, map[string]map[string]float64{"bridge": worse()})
		}, report.Options{Width: 60}, "text"},
		{"strip", func(t *testing.T) (older, newer *made) {
			return old(t, three[:1]), loaded(t, true, three[:1], map[string]map[string]float64{"bridge": worse()})
		}, report.Options{Width: 32}, "text"},
		{"markdown", func(t *testing.T) (older, newer *made) {
			return old(t, three), loaded(t, true, three, map[string]map[string]float64{"bridge": worse()})
		}, report.Options{}, "markdown"},
		{"markdownall", func(t *testing.T) (older, newer *made) {
			return old(t, three[:1]), loaded(t, true, three[:1], map[string]map[string]float64{"bridge": worse()})
		}, report.Options{All: true}, "markdown"},
		{"many", func(t *testing.T) (older, newer *made) {
			loads := []load{
				udprr("same-host", 1), udprr("same-host", 10), udprr("cross-host", 1), tcpstream("same-host"),
				tcpstream("cross-host"),
			}
			b := worse()
			return old(t, loads), loaded(t, true, loads, map[string]map[string]float64{
				"bridge": b, "routed": {"goodput": 1.2, "latency_p50": 0.9},
			})
		}, report.Options{}, "text"},
		{"loss", func(t *testing.T) (older, newer *made) { // as the primary metric
			loads := []load{udprate("28")}
			loads[0].primary = "loss"
			return loaded(t, false, loads, nil), loaded(t, true, loads, map[string]map[string]float64{"bridge": {"loss": 0.013}})
		}, report.Options{}, "text"},
		{"unlike", func(t *testing.T) (older, newer *made) {
			older, newer = old(t, three[:1]), loaded(t, true, three[:1], map[string]map[string]float64{"bridge": worse()})
			newer.run.Facts["kernel"], newer.run.Facts["mtu"] = "6.18.1", 9000
			newer.run.Cells[2].Implementation = map[string]string{"network": "ebpf"}
			older.run.Started = newer.run.Started.Add(time.Hour)
			return older, newer
		}, report.Options{}, "text"},
		{"doubts", func(t *testing.T) (older, newer *made) {
			older, newer = old(t, three),
				start(t, []load{three[0], udprate("28"), three[2]}, "host", "bridge", "routed", "macvlan")
			again(newer)
			newer.measure([]load{three[0], udprate("28"), three[2]}, 3, 8, map[string]map[string]float64{"bridge": worse()})
			for i := range newer.log.Trials {
				if x := &newer.log.Trials[i]; strings.HasPrefix(x.Cell, "routed/same-host/1/udp-rr") ||
					x.Cell == "host/same-host/1/tcp-stream(message=131072)" {
					x.Metrics, x.Failed = nil, "no answer within 2 s"
				}
			}
			newer.prove(3, "before")
			newer.log.Proofs[4].OK = false
			newer.log.Warnings = []measure.Warning{{Text: "the hypervisor took away 3.1 % of a core while it was measured"}}
			return older, newer
		}, report.Options{}, "text"},
		{"interrupted", func(t *testing.T) (older, newer *made) {
			newer = start(t, three[:1], "host", "bridge", "routed")
			again(newer).measure(three[:1], 1, 3, nil)
			newer.log.Generations, newer.log.End = nil, nil // it was killed
			return old(t, three[:1]), newer
		}, report.Options{}, "text"},
		{"nothing", func(t *testing.T) (older, newer *made) {
			return old(t, three[:1]), again(start(t, three[:1], "host", "bridge", "routed"))
		}, report.Options{}, "text"},
		{"baselines", func(t *testing.T) (older, newer *made) {
			newer = start(t, three[:1], "host", "macvlan")
			again(newer).measure(three[:1], 5, 4, nil)
			return old(t, three[:1]), newer
		}, report.Options{}, "text"},
		{"withouttwin", func(t *testing.T) (older, newer *made) {
			older, newer = old(t, three[:1]), loaded(t, true, three[:1], map[string]map[string]float64{"bridge": worse()})
			newer.run.Cells = append(newer.run.Cells[:1:1], newer.run.Cells[2:]...)
			return older, newer
		}, report.Options{}, "text"},
		{"far", func(t *testing.T) (older, newer *made) {
			return old(t, three[:1]), loaded(t, true, three[:1], map[string]map[string]float64{"bridge": {"latency_p50": 7.4}})
		}, report.Options{}, "text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			older, newer := tt.make(t)
			oldDir, newDir := "runs/before", "runs/after"
			if tt.name == "same" {
				newDir = "runs/x/../before/"
			}
			c := report.Compare(oldDir, newDir, older.whole(), newer.whole())
			var b bytes.Buffer
			if err := view.WriteCompared(&b, tt.format, report.Comparisons{c}, tt.options); err != nil {
				t.Fatal(err)
			}
			golden(t, "compare-"+tt.name+".golden", b.String())
			if tt.format == "text" {
				tidy(t, b.String(), tt.options)
			}
		})
	}
}

// Texts from files can neither control a terminal, nor be taken for Markdown, nor break a line.
func TestCompareHostile(t *testing.T) {
	const evil = "\x1b[2J\x07<img src=x onerror=alert(1)>|`*_[x](javascript:1)\n\n# h\u202e\xff"
	hostile := func(second bool) *made {
		loads := []load{udprr("same-host", 1)}
		loads[0].name, loads[0].placement, loads[0].id = evil, "same-host"+evil, "udp-rr("+evil+")"
		loads[0].params = map[string]string{evil: evil}
		m := start(t, loads, "host", "bridge"+evil, "x"+evil)
		m.run.Facts["governor"] = "z"
		if second {
			again(m)
			m.run.Facts["kernel"], m.run.Facts["governor"], m.run.Facts["mitigations"] = evil, strings.Repeat("y", 10_000),
				map[string]any{evil: evil}
			m.run.Versions["nettoll"] = evil
		}
		m.measure(loads, 5, 4, map[string]map[string]float64{"bridge" + evil: {"latency_p50": 1.5}})
		for i := range m.run.Cells {
			m.run.Cells[i].Implementation = map[string]string{evil: strconv.FormatBool(second) + evil}
			m.run.Cells[i].Affinity = evil
		}
		m.log.Proofs = []measure.Proof{{Lab: evil, Claim: evil, When: evil, Detail: evil}}
		m.log.Warnings = []measure.Warning{{Text: evil, Cell: evil}}
		m.log.Facts = []measure.Fact{
			{Key: "congestion_control", Value: map[string]any{evil: 1}},
			{Key: "sockets of x", Value: map[string]any{
				m.run.Cells[2].ID + " sink": map[string]any{evil: strconv.FormatBool(second) + evil},
			}},
		}
		for i := range m.log.Trials {
			if x := &m.log.Trials[i]; strings.HasPrefix(x.Cell, "x") {
				x.Metrics, x.Failed = nil, evil
			}
		}
		return m
	}
	c := report.Compare(evil, evil+"2", hostile(false).whole(), hostile(true).whole())
	texts := map[string]string{}
	for _, format := range []string{"text", "markdown", "html", "junit"} {
		var b bytes.Buffer
		if err := view.WriteCompared(&b, format, report.Comparisons{c}, report.Options{All: true}); err != nil {
			t.Fatal(err)
		}
		texts[format] = b.String()
	}
	err := c.Check(false)
	if !errors.Is(err, report.ErrIncomparable) {
		t.Fatalf("error %v", err)
	}
	texts["error"] = err.Error()
	texts["doubts"] = strings.Join(c.Doubts(), "\n")
	for name, text := range texts {
		if i := strings.IndexFunc(text, func(r rune) bool {
			return r != '\n' && r < ' ' || r == 0x7f || r == 0x202e
		}); i >= 0 {
			t.Errorf("%s: a control character: %q", name, text[max(0, i-60):min(len(text), i+60)])
		}
		for line := range strings.Lines(text) {
			if name != "html" && len(line) > 5000 {
				t.Errorf("%s: a line of %d bytes", name, len(line))
			}
			if name != "markdown" && strings.HasPrefix(line, "# h") {
				t.Errorf("%s: a line of the file's own: %q", name, line)
			}
		}
	}
	for _, s := range []string{"<img", "\n# h", "[x](", "|`*"} {
		if strings.Contains(texts["markdown"], s) {
			t.Errorf("markdown has %q as it is in the file", s)
		}
	}
	// Every row of a table has as many fields as its heading.
	columns := 0
	for line := range strings.Lines(texts["markdown"]) {
		n := strings.Count(line, "|") - strings.Count(line, `\|`)
		switch {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0:
			columns = n
		case n != columns:
			t.Errorf("%d separators, want %d: %q", n, columns, line)
		}
	}
}

func TestCheck(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	run := func(second bool) *made { return loaded(t, second, loads, nil) }
	check := func(older, newer *made, anyway bool) error {
		return report.Compare("a", "b", older.whole(), newer.whole()).Check(anyway)
	}
	if err := check(run(false), run(true), false); err != nil {
		t.Errorf("runs that are alike: %v", err)
	}

	other := run(true)
	other.run.Facts["kernel"], other.run.Facts["mtu"] = "6.18.1", 9000
	err := check(run(false), other, false)
	const want = `compare: "a" and "b" cannot be compared: kernel release: 6.12.9 in OLD, 6.18.1 in NEW` +
		"\n  MTU: 1500 in OLD, 9000 in NEW"
	if !errors.Is(err, report.ErrIncomparable) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := check(run(false), other, true); err != nil {
		t.Errorf("anyway: %v", err)
	}

	lengths := run(true)
	older := run(false)
	older.run.Design.TrialSeconds, lengths.run.Design.TrialSeconds = map[string]float64{}, map[string]float64{}
	for i, c := range older.run.Cells {
		older.run.Design.TrialSeconds[c.ID] = 0.04
		lengths.run.Design.TrialSeconds[c.ID] = 0.04 + 0.01*float64(i/2)
	}
	err = check(older, lengths, false)
	const where = "trial length: 40 ms in OLD, 50 ms in NEW (bridge/same-host/1/udp-rr(payload=64,mode=wait) and 1 more " +
		"cell)"
	if err == nil || !strings.HasSuffix(err.Error(), where) {
		t.Errorf("%v, want … %s", err, where)
	}

	stranger := loaded(t, true, []load{tcpstream("same-host")}, nil)
	for _, anyway := range []bool{false, true} {
		err := check(run(false), stranger, anyway)
		if !errors.Is(err, report.ErrNothingInCommon) ||
			!strings.Contains(err.Error(), "OLD has host/same-host/1/udp-rr(payload=64,mode=wait) and 3 more cells, NEW has "+
				"host/same-host/1/tcp-stream(message=131072) and 3 more cells") {
			t.Errorf("anyway %v: %v", anyway, err)
		}
	}
}

func TestCompareCSV(t *testing.T) {
	m := func(second bool) *made {
		loads := []load{udprate("28"), tcpstream("same-host")}
		return loaded(t, second, loads, map[string]map[string]float64{
			"bridge": {"packet_rate": 0.7, "loss": 0.013, "goodput": 0.9},
		})
	}
	c := report.Compare("a", "b", m(false).whole(), m(true).whole())
	for _, all := range []bool{false, true} {
		var b bytes.Buffer
		if err := view.WriteCompared(&b, "csv", report.Comparisons{c}, report.Options{All: all}); err != nil {
			t.Fatal(err)
		}
		var want []measure.Change
		for _, x := range c.Changes {
			if x.Primary || all {
				want = append(want, x)
			}
		}
		rows := table(t, b.Bytes())
		if len(rows) != len(want) || len(want) < 8 {
			t.Fatalf("%d rows, want %d", len(rows), len(want))
		}
		for i, x := range want {
			row := rows[i]
			nan := math.NaN()
			numbers := map[string]float64{
				"old_value": x.Old.Value, "new_value": x.New.Value, "drift": x.Drift(), "ratio": nan, "ratio_lo": nan,
				"ratio_hi": nan, "old_ratio": nan, "new_ratio": nan,
				"difference": nan, "difference_lo": nan, "difference_hi": nan, "old_difference": nan, "new_difference": nan,
				"adjusted_lo": x.AdjLo, "adjusted_hi": x.AdjHi,
				"old_blocks": float64(x.Old.Blocks), "new_generations": float64(x.New.Generations), "floor": math.Expm1(x.Floor),
			}
			switch {
			case x.HasRatio:
				numbers["ratio"], numbers["ratio_lo"], numbers["ratio_hi"] = x.Estimate.Ratio, x.Estimate.Lo, x.Estimate.Hi
				numbers["old_ratio"], numbers["new_ratio"] = x.Old.Estimate.Ratio, x.New.Estimate.Ratio
			case x.HasDifference:
				numbers["difference"], numbers["difference_lo"], numbers["difference_hi"] = x.Difference.Points, x.Difference.Lo,
					x.Difference.Hi
				numbers["old_difference"], numbers["new_difference"] = x.Old.Difference.Points, x.New.Difference.Points
			}
			numbers["value_ratio"], numbers["value_ratio_lo"], numbers["value_difference_hi"] = nan, nan, nan
			if x.Own.HasRatio {
				numbers["value_ratio"], numbers["value_ratio_lo"] = x.Own.Estimate.Ratio, x.Own.Estimate.Lo
			} else {
				numbers["value_difference_hi"] = x.Own.Difference.Hi
			}
			if x.Metric == "loss" || x.Metric == "retransmits" {
				numbers["floor"] = x.Floor
			}
			for column, want := range numbers {
				if got := number(t, row[column]); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Errorf("%s %s: %s is %v, want %v", x.Cell.ID, x.Metric, column, got, want)
				}
			}
			for column, want := range map[string]string{
				"cell": x.Cell.ID, "metric": x.Metric, "unit": x.Unit, "verdict": string(x.Verdict),
				"primary": strconv.FormatBool(x.Primary), "payload": x.Cell.Params["payload"], "baseline": x.Cell.Baseline,
				"shift": string(x.Shift), "compared": "ratios", "old_run": "a", "new_run": "b",
			} {
				if row[column] != want {
					t.Errorf("%s %s: %s is %q, want %q", x.Cell.ID, x.Metric, column, row[column], want)
				}
			}
		}
	}
}

func TestCompareJSON(t *testing.T) {
	loads := []load{udprr("same-host", 1), tcpstream("same-host")}
	older, newer := loaded(t, false, loads, map[string]map[string]float64{"bridge": bridge()}),
		loaded(t, true, loads, map[string]map[string]float64{"bridge": worse()})
	newer.run.Facts["mtu"] = 9000
	older.run.Cells, newer.run.Cells = older.run.Cells[:7], append(newer.run.Cells[:2:2], newer.run.Cells[3:]...)
	c := report.Compare("a", "b", older.whole(), newer.whole())
	var b bytes.Buffer
	if err := view.WriteCompared(&b, "json", report.Comparisons{c}, report.Options{}); err != nil {
		t.Fatal(err)
	}
	type change struct {
		Cell, Metric, Verdict string
		Ratio                 float64
		Primary, Worse        bool
		Type                  string
	}
	var got struct {
		V        int
		Old, New struct {
			Dir, Name   string
			Generations int
		}
		Changes           []change
		Obstacles         []struct{ What, Old, New string }
		OnlyOld           []string `json:"only_old"`
		OnlyNew, Warnings []string
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.V != measure.Version || got.Old.Dir != "a" || got.New.Dir != "b" || got.New.Generations != 5 ||
		got.Old.Name != "made" {
		t.Errorf("%+v", got)
	}
	if d := cmp.Diff([]struct{ What, Old, New string }{{"MTU", "1500", "9000"}}, got.Obstacles); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"bridge/same-host/1/udp-rr(payload=64,mode=wait)"}, got.OnlyOld); d != "" {
		t.Error(d)
	}
	if len(got.Warnings) != len(c.Doubts()) {
		t.Errorf("%d warnings, want %d", len(got.Warnings), len(c.Doubts()))
	}
	var want []change
	for _, x := range c.Changes {
		if x.Primary {
			want = append(want, change{x.Cell.ID, x.Metric, string(x.Verdict), x.Estimate.Ratio, true, x.Worse(), "change"})
		}
	}
	if d := cmp.Diff(want, got.Changes); d != "" || len(want) != 6 {
		t.Errorf("%d changes\n%s", len(want), d)
	}
	if c.Worse() != 3 || c.Failed() != 0 { // the bridge, and both baselines, because of the slow day
		t.Errorf("%d worse and %d failed, want 3 and 0", c.Worse(), c.Failed())
	}
}

func TestCompareFormats(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	c := report.Compare("a", "b", loaded(t, false, loads, nil).whole(), loaded(t, true, loads, nil).whole())
	for _, format := range view.CompareFormats() {
		if err := view.CheckCompared(format); err != nil {
			t.Error(err)
		}
		full := short(100)
		l := report.Comparisons{c}
		if err := view.WriteCompared(&full, format, l, report.Options{}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s on a full disk: error %v", format, err)
		}
	}
	if err := view.WriteCompared(io.Discard, "yaml", report.Comparisons{c}, report.Options{}); !errors.Is(err, view.ErrUnknownFormat) ||
		err.Error() != `unknown format "yaml" (known: text, html, markdown, csv, jsonl, json, junit)` {
		t.Errorf("%v", err)
	}
}
