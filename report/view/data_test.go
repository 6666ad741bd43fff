package view_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/view"
)

// header has the columns that other programs rely on.
const header = "cell,network,filter,tunnel,encryption,runtime,placement,pairs,family,affinity,workload,payload,mode,metric,unit,value,ratio,ratio_lo,ratio_hi,verdict,blocks,generations"

// table reads CSV into a map for each row.
func table(t *testing.T, b []byte) []map[string]string {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, fields := range all[1:] {
		row := map[string]string{}
		for i, f := range fields {
			row[all[0][i]] = f
		}
		rows = append(rows, row)
	}
	return rows
}

// number returns a field of a CSV; NaN if it is empty.
func number(t *testing.T, s string) float64 {
	t.Helper()
	if s == "" {
		return math.NaN()
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// mixed is a run with ratios, differences, a failed cell, and a metric that this nettoll does not know.
func mixed(t testing.TB) *made {
	loads := []load{udprate("28"), tcpstream("same-host")}
	m := start(t, loads, "host", "bridge", "routed")
	m.measure(loads, 5, 4, map[string]map[string]float64{"bridge": {"packet_rate": 0.7, "loss": 0.013, "goodput": 0.9}})
	for i := range m.log.Trials {
		switch x := &m.log.Trials[i]; {
		case strings.HasPrefix(x.Cell, "routed/same-host"):
			x.Metrics, x.Failed = nil, "it said \"no\", and\nno more"
		case i%7 == 0:
			x.Metrics["wonder"] = float64(i)
			x.Warnings = []string{"a doubt", "another, with a comma"}
		}
	}
	m.prove(2, "before")
	m.log.Warnings = []measure.Warning{{Lab: "x", Text: "a warning"}}
	m.log.Facts = []measure.Fact{{Key: "congestion_control", Value: "cubic"}}
	return m
}

func TestCSV(t *testing.T) {
	m := mixed(t)
	a := m.analysis()
	var b bytes.Buffer
	if err := export.CSV(&b, m.data()); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(b.String(), "\n"); !strings.HasPrefix(first, header+",") {
		t.Errorf("columns %q, want %q and more", first, header)
	}
	rows := table(t, b.Bytes())
	direct := m.data().Direct()
	if len(direct) != 1 || len(rows) != len(a.Rows)+1 {
		t.Fatalf("%d rows and %d direct ones, want %d and 1", len(rows), len(direct), len(a.Rows))
	}
	last := rows[len(a.Rows)]
	if last["over"] != direct[0].Over.ID || last["cell"] != direct[0].Cell.ID || last["baseline"] != "" || last["value"] != "" ||
		number(t, last["ratio"]) != direct[0].Estimate.Ratio || last["verdict"] != string(direct[0].Verdict) {
		t.Errorf("%v, want %+v", last, direct[0].Row)
	}
	if rows = rows[:len(a.Rows)]; len(rows) < 10 {
		t.Fatalf("%d rows, want %d", len(rows), len(a.Rows))
	}
	ratios, differences := 0, 0
	for i, r := range a.Rows {
		row := rows[i]
		want := map[string]float64{
			"value": r.Value, "value_lo": r.ValueLo, "value_hi": r.ValueHi, "adjusted_lo": r.AdjLo, "adjusted_hi": r.AdjHi, "ratio": math.NaN(), "ratio_lo": math.NaN(),
			"ratio_hi": math.NaN(), "difference": math.NaN(), "difference_lo": math.NaN(), "difference_hi": math.NaN(),
			"spread": math.NaN(), "floor": math.Expm1(r.Floor),
		}
		switch {
		case r.HasRatio:
			ratios++
			want["ratio"], want["ratio_lo"], want["ratio_hi"], want["spread"] = r.Estimate.Ratio, r.Estimate.Lo, r.Estimate.Hi,
				math.Expm1(r.Estimate.Spread)
		case r.HasDifference:
			differences++
			want["difference"], want["difference_lo"], want["difference_hi"], want["spread"] = r.Difference.Points,
				r.Difference.Lo, r.Difference.Hi, r.Difference.Spread
		}
		if r.Metric == "loss" || r.Metric == "retransmits" {
			want["floor"] = r.Floor
		}
		for column, x := range want {
			if got := number(t, row[column]); got != x && !(math.IsNaN(got) && (math.IsNaN(x) || math.IsInf(x, 0))) {
				t.Errorf("%s %s: %s is %v, want %v", r.Cell.ID, r.Metric, column, got, x)
			}
		}
		texts := map[string]string{
			"cell": r.Cell.ID, "network": r.Cell.Part("network"), "placement": r.Cell.Placement, "pairs": "1",
			"workload": r.Cell.Workload, "payload": r.Cell.Params["payload"], "metric": r.Metric, "unit": r.Unit,
			"verdict": string(r.Verdict), "blocks": strconv.Itoa(r.Blocks), "generations": strconv.Itoa(r.Generations),
			"baseline": r.Cell.Baseline, "implementation": "network=kernel",
			"primary": strconv.FormatBool(r.Metric == r.Cell.Primary), "limit": r.Limit,
		}
		for column, want := range texts {
			if row[column] != want {
				t.Errorf("%s %s: %s is %q, want %q", r.Cell.ID, r.Metric, column, row[column], want)
			}
		}
	}
	if ratios == 0 || differences == 0 {
		t.Errorf("%d ratios and %d differences: nothing was tested", ratios, differences)
	}
}

func TestTrials(t *testing.T) {
	m := mixed(t)
	m.log.Trials = append(m.log.Trials, measure.Trial{Cell: "stranger", Metrics: map[string]float64{"goodput": 1}})
	var b bytes.Buffer
	if err := export.Trials(&b, m.data()); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(b.String(), "\n")
	want := "cell,network,filter,tunnel,encryption,runtime,placement,pairs,family,affinity,workload,payload,mode,gen,block,start,dur,goodput,packet_rate,packet_rate_sent,loss,cpu_busy,cpu_per_packet,service_demand,retransmits,wonder,failed,warn,limit,spoiled,aside"
	if d := cmp.Diff(want, first); d != "" {
		t.Error(d)
	}
	rows := table(t, b.Bytes())
	if len(rows) != len(m.log.Trials) {
		t.Fatalf("%d rows, want %d", len(rows), len(m.log.Trials))
	}
	for i, x := range m.log.Trials {
		row := rows[i]
		got := measure.Trial{
			Cell: row["cell"], Failed: row["failed"], Limit: row["limit"], Start: number(t, row["start"]),
			Duration: number(t, row["dur"]),
		}
		got.Generation, _ = strconv.Atoi(row["gen"])
		got.Block, _ = strconv.Atoi(row["block"])
		for _, name := range []string{
			"goodput", "packet_rate", "packet_rate_sent", "loss", "cpu_busy", "cpu_per_packet", "service_demand", "retransmits",
			"wonder",
		} {
			if v := number(t, row[name]); !math.IsNaN(v) {
				if got.Metrics == nil {
					got.Metrics = map[string]float64{}
				}
				got.Metrics[name] = v
			}
		}
		if row["warn"] != "" {
			got.Warnings = strings.Split(row["warn"], "; ")
		}
		if d := cmp.Diff(x, got); d != "" {
			t.Fatalf("trial %d: %s", i, d)
		}
	}
}

func TestJSONL(t *testing.T) {
	m := mixed(t)
	a := m.analysis()
	var b bytes.Buffer
	if err := export.JSONL(&b, m.data()); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	i := 0
	for s := bufio.NewScanner(&b); s.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprint(line["type"])
		kinds = append(kinds, kind)
		switch kind {
		case "run":
			if line["name"] != "made" || line["trials"] != float64(a.Trials) ||
				line["versions"].(map[string]any)["nettoll"] != "v0.1.0" {
				t.Errorf("%v", line)
			}
		case "row":
			r := a.Rows[i]
			i++
			_, hasRatio := line["ratio"]
			_, hasDifference := line["difference"]
			value, hasValue := line["value"]
			if line["cell"] != r.Cell.ID || line["metric"] != r.Metric || line["verdict"] != string(r.Verdict) ||
				hasRatio != r.HasRatio || hasDifference != r.HasDifference || hasValue && value != r.Value ||
				hasValue == math.IsNaN(r.Value) {
				t.Errorf("%v, want %+v", line, r)
			}
			if hasRatio && line["ratio"] != r.Estimate.Ratio {
				t.Errorf("ratio %v, want %v", line["ratio"], r.Estimate.Ratio)
			}
		}
	}
	if i != len(a.Rows) {
		t.Errorf("%d rows, want %d", i, len(a.Rows))
	}
	if d := cmp.Diff([]string{"run", "row", "direct", "memory", "failed", "warning", "proof", "fact"}, slices.Compact(kinds)); d != "" {
		t.Error(d)
	}
}

// short is a writer that fails after this number of bytes.
type short int

func (s *short) Write(p []byte) (int, error) {
	if *s -= short(len(p)); *s < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestFormats(t *testing.T) {
	m := mixed(t)
	for _, format := range view.Formats() {
		if err := view.Check(format); err != nil {
			t.Error(err)
		}
		var b bytes.Buffer
		if err := view.Write(&b, format, m.data(), report.Options{}); err != nil || b.Len() == 0 {
			t.Errorf("%s: %v, %d bytes", format, err, b.Len())
		}
		full := short(100)
		if err := view.Write(&full, format, m.data(), report.Options{}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s on a full disk: error %v", format, err)
		}
	}
	full := short(100)
	if err := export.Trials(&full, m.data()); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("trials on a full disk: error %v", err)
	}
	err := view.Write(io.Discard, "xls", m.data(), report.Options{})
	if !errors.Is(err, view.ErrUnknownFormat) ||
		err.Error() != `unknown format "xls" (known: text, html, markdown, csv, jsonl, json)` {
		t.Errorf("error %v", err)
	}
}
