package main

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/measure"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name  string
		parse func([]byte) (float64, error)
		text  string
		want  float64
		err   string
	}{
		{
			"private memory", func(b []byte) (float64, error) {
				return parsePrivate(string(b))
			}, "00400000-7ffd [rollup]\nRss: 9000 kB\nPrivate_Clean:  100 kB\nPrivate_Dirty:  1000 kB\nPrivate_Hugetlb: 0 kB\n",
			1100 * 1024, "",
		},
		{"private memory: none", func(b []byte) (float64, error) {
			return parsePrivate(string(b))
		}, "Rss: 9000 kB\n", 0, "none in"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.parse([]byte(test.text))
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
				t.Errorf("figure (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompared(t *testing.T) {
	around := func(ratio, spread float64) [][]float64 {
		var groups [][]float64
		for _, d := range []float64{-spread, spread, -spread, spread, 0} {
			groups = append(groups, []float64{math.Log(ratio) + d})
		}
		return groups
	}
	tests := []struct {
		name   string
		groups [][]float64
		limit  float64
		below  bool
		want   string
	}{
		{"shorter", around(0.9, 0.01), 1.05, true, yes},
		{"much longer", around(1.2, 0.01), 1.05, true, no},
		{"as long, but who knows", around(1, 0.1), 1.05, true, open},
		{"more", around(1.5, 0.01), 0.95, false, yes},
		{"less", around(0.8, 0.01), 0.95, false, no},
		{"as much, but who knows", around(1, 0.1), 0.95, false, open},
		{"one group", [][]float64{{0}}, 1.05, true, no},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ratio, met := compared(test.groups, test.limit, test.below)
			if met != test.want {
				t.Errorf("%s: met: %q, want %q", ratio, met, test.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	var tab table
	tab.add(row{what: "a", ours: duration(1.5e-6), theirs: duration(0.25), ratio: "1", goal: "below 2", met: yes})
	tab.loaded("0.1 → 0.2")
	tab.add(row{what: "b", ours: bitrate(12.34e9)})
	tab.loaded("0.2 → 0.3")
	tab.note("%d notes", 1)
	var out strings.Builder
	tab.print(&out, []string{"a fact"})
	want := `- a fact

| what | nettoll | other | ratio [95 %] | goal | met | load average |
| --- | --- | --- | --- | --- | --- | --- |
| a | 1.50 µs | 250 ms | 1 | below 2 | yes | 0.1 → 0.2 |
| b | 12.3 Gbit/s | – | – | – | – | 0.2 → 0.3 |

- 1 notes
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTurnRows(t *testing.T) {
	run := measure.Run{
		Cells: []measure.Cell{
			{ID: "x", Workload: "udp-rr", Pairs: 1},
			{ID: "x#2", Workload: "udp-rr", Pairs: 1},
			{ID: "y", Workload: "udp-rr", Pairs: 20},
		},
		Design: measure.Design{TrialSeconds: map[string]float64{"x": 0.05, "x#2": 0.05, "y": 0.01}},
	}
	trial := func(cell string, dead float64) measure.Trial {
		return measure.Trial{Cell: cell, Metrics: map[string]float64{"dead_time": dead, "drain_time": 1e-4}}
	}
	log := &measure.Log{Trials: []measure.Trial{
		trial("x", 100e-6), trial("x#2", 120e-6), trial("x", 300e-6),
		{Cell: "x", Failed: "lost"},
		trial("y", 550e-6), // within 600 µs, but more than 5 % of its trial
	}}
	var b bench
	b.turnRows(run, log)
	var got []string
	for _, r := range b.table.rows {
		got = append(got, r.met+" "+r.ours)
	}
	want := []string{
		"yes 120 µs (90 %: 300 µs), 0.24 % of a trial of 50.0 ms; drain 100 µs",
		"no 550 µs (90 %: 550 µs), 5.50 % of a trial of 10.0 ms; drain 100 µs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"turns: 1 trials of udp-rr with 1 pairs failed"}, b.table.notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// The compared cells have valid ids, exist, and can be driven.
func TestComparisonsNameCells(t *testing.T) {
	for _, c := range comparisons() {
		for _, id := range []string{c.ours(), c.theirs()} {
			one, err := newCell(catalogue.New(), id, c.warm(), full().visit)
			if err != nil {
				t.Fatal(err)
			}
			if one.asked != id || (one.driver != nil) != (id == c.theirs()) || one.length < full().visit {
				t.Errorf("cell %q is called %q, driver %v, trials of %v", id, one.asked, one.driver, one.length)
			}
		}
	}
	if _, err := newCell(catalogue.New(), "udp-rr(driver=iperf3)", 0, full().visit); err == nil {
		t.Error("a driver that cannot drive a workload is taken")
	}
}
