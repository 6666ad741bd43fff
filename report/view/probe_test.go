package view_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// probed makes a run whose cells, except twins, are probed as well: the probe makes round trips 4 % longer and streams
// 10 % slower.
func probed(t *testing.T) *report.Data {
	loads := []load{udprr("same-host", 1), tcpstream("same-host")}
	m := start(t, loads, "host", "bridge")
	m.run.Facts["irq_time_accounting"] = false
	m.measure(loads, 5, 4, map[string]map[string]float64{"bridge": {"latency_p50": 1.1, "goodput": 0.8}})
	cells := map[string]measure.Cell{}
	for _, c := range m.run.Cells {
		if c.Twin {
			continue
		}
		c.Unprobed, c.Probe = c.ID, "softirq"
		c.ID, c.Group = c.ID+"+softirq", c.Group+"|+softirq"
		if c.Baseline != "" {
			c.Baseline += "+softirq"
		}
		cells[c.Unprobed] = c
		m.run.Cells = append(m.run.Cells, c)
	}
	for _, trial := range m.log.Trials {
		c, ok := cells[trial.Cell]
		if !ok {
			continue
		}
		x := math.Exp(0.01 * m.rnd.NormFloat64())
		trial.Cell, trial.Metrics = c.ID, maps.Clone(trial.Metrics)
		if c.Workload == "udp-rr" {
			trial.Metrics["latency_p50"] *= 1.04 * x
			trial.Metrics["softirq_per_packet"] = 0.4 * trial.Metrics["cpu_per_packet"]
		} else {
			trial.Metrics["goodput"] *= 0.9 * x
		}
		trial.Metrics["cpu_softirq"] = 0.4 * trial.Metrics["cpu_busy"]
		m.log.Trials = append(m.log.Trials, trial)
	}
	return &report.Data{Run: m.run, Log: &m.log, Analysis: measure.Analyze(m.run, &m.log)}
}

// said returns a run in one format.
func said(t *testing.T, format string, d *report.Data) string {
	t.Helper()
	var b bytes.Buffer
	if err := view.Write(&b, format, d, report.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Probed cells are in a section of their own, with the cost of the probe, and nowhere else in views for people.
func TestProbedCells(t *testing.T) {
	d := probed(t)
	text := said(t, "text", d)
	const title = "Softirq time, in probed trials"
	before, rest, ok := strings.Cut(text, title)
	section, after, _ := strings.Cut(rest, "Measured for")
	if !ok || strings.Contains(before+after, "probe") || strings.Count(before, "host · 1 pair") != 2 {
		t.Fatalf("the section is not there, or not alone:\n%s", text)
	}
	for _, want := range []string{
		"            CPU softirq  per packet  over loopback  95 % interval   the probe costs\n",
		"  loopback  0.443 cores      845 ns                                 3.8 % [2.9, 4.6]\n",
		"  bridge    0.443 cores      847 ns         +0.2 %  −1.3 to +1.6 %  4.3 % [3.5, 5.1]\n",
		"            CPU softirq  over loopback  95 % interval   the probe costs\n", // a stream has no packets
		"  loopback  0.725 cores                                 9.6 % [9.3, 9.8]\n",
		"  bridge    0.720 cores         −0.7 %  −1.8 to +0.5 %  9.6 % [9.2, 10.0]\n",
		"is part of the CPU time above",
	} {
		if !strings.Contains(oneSpace(section), oneSpace(want)) {
			t.Errorf("%q is not in\n%s", want, section)
		}
	}
	for _, format := range []string{"markdown", "html"} {
		if page := said(t, format, d); strings.Count(page, title) != 1 || !strings.Contains(page, "CPU softirq") ||
			!strings.Contains(page, "the probe costs") {
			t.Errorf("%s does not have the section", format)
		}
	}
	d.Run.Facts["irq_time_accounting"] = true
	if text := said(t, "text", d); !strings.Contains(oneSpace(text), "is not part of the CPU time above") {
		t.Errorf("nothing about time apart in\n%s", text)
	}
}

func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

// A probe with too few measurements has no cost.
func TestProbeWithoutCost(t *testing.T) {
	d := probed(t)
	d.Log.Trials = d.Log.Trials[:0]
	d.Analysis = measure.Analyze(d.Run, d.Log)
	if _, section, ok := strings.Cut(said(t, "text", d), "in probed trials"); !ok || !strings.Contains(section, "–") {
		t.Errorf("%s", section)
	}
}

func TestProbeAsData(t *testing.T) {
	d := probed(t)
	rows, err := csv.NewReader(strings.NewReader(said(t, "csv", d))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	costs := 0
	for _, r := range rows[1:] {
		at := func(name string) string { return r[column[name]] }
		switch {
		case (at("probe") == "softirq") != strings.HasSuffix(at("cell"), "+softirq") || at("probe") != "" && at("unprobed")+
			"+softirq" != at("cell"):
			t.Errorf("probe %q of %q in the row of %s", at("probe"), at("unprobed"), at("cell"))
		case (at("probe_ratio") != "") != (at("probe") != "" && at("primary") == "true"):
			t.Errorf("%s, %s: a cost of %q", at("cell"), at("metric"), at("probe_ratio"))
		case at("probe_ratio") != "":
			costs++
			if at("probe_ratio_lo") >= at("probe_ratio") || at("probe_ratio") >= at("probe_ratio_hi") {
				t.Errorf("%s: %s, %s to %s", at("cell"), at("probe_ratio"), at("probe_ratio_lo"), at("probe_ratio_hi"))
			}
		}
	}
	if costs != 4 {
		t.Errorf("%d costs, want 4", costs)
	}
	lines := 0
	for line := range strings.Lines(said(t, "jsonl", d)) {
		var x struct {
			Type, Cell, Unprobed, Metric string
			Ratio, RatioLo, RatioHi      float64
		}
		if err := json.Unmarshal([]byte(strings.NewReplacer("ratio_lo", "ratiolo", "ratio_hi", "ratiohi").Replace(line)),
			&x); err != nil {
			t.Fatal(err)
		}
		if x.Type != "probe" {
			continue
		}
		lines++
		want := map[string]float64{"latency_p50": 1.04, "goodput": 0.9}[x.Metric]
		if x.Cell != x.Unprobed+"+softirq" || math.Abs(x.Ratio/want-1) > 0.01 || x.RatioLo >= x.Ratio ||
			x.Ratio >= x.RatioHi {
			t.Errorf("%s", line)
		}
	}
	if lines != 4 {
		t.Errorf("%d lines of probes, want 4", lines)
	}
}

// A comparison ignores probed cells.
func TestCompareProbed(t *testing.T) {
	older, newer := probed(t), probed(t)
	var b bytes.Buffer
	l := report.Comparisons{report.Compare("old", "new", older, newer)}
	if err := view.WriteCompared(&b, "text", l, report.Options{}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Contains(text, "softirq") || strings.Contains(text, "probed") {
		t.Errorf("probed cells in\n%s", text)
	}
}
