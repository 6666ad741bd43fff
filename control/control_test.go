package control

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		affinity       string
		cpus           []int
		sources, sinks []int
	}{
		{"split", []int{0, 1}, []int{0}, []int{1}},
		{"split", []int{2, 3, 5}, []int{2, 3}, []int{5}},
		{"split", []int{7}, []int{7}, []int{7}}, // nothing to decide
		{"same", []int{0, 1, 2, 3}, []int{0, 1}, []int{0, 1}},
		{"free", []int{0, 1}, nil, nil},
	} {
		p, err := place(c.affinity, c.cpus)
		if err != nil || cmp.Diff(c.sources, p.sources) != "" || cmp.Diff(c.sinks, p.sinks) != "" {
			t.Errorf("%s on %v: %+v, %v", c.affinity, c.cpus, p, err)
		}
	}
	var unknown *experiment.UnknownError
	if _, err := place("near", []int{0, 1}); !errors.As(err, &unknown) {
		t.Errorf("near: %v, want an UnknownError", err)
	}
}

// Across two hosts three pairs take a worker for each side and host, with a thread for each of its pairs.
func TestSketch(t *testing.T) {
	g := &generation{}
	c := &configurator{resolved: &experiment.Resolved{}, cpus: []int{0, 1}}
	l, err := c.sketch(g, experiment.Lab{
		ID: "bridge/cross-host/3", Placement: experiment.CrossHost, Pairs: 3, Affinity: "split", Hosts: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	type seat struct {
		Side  workload.Side
		Host  int
		Pairs []int
		CPUs  []int
	}
	var got []seat
	for i, w := range l.workers {
		if w.number != i {
			t.Errorf("worker %d has number %d on the board", i, w.number)
		}
		got = append(got, seat{w.side, w.host, w.pairs, w.cpus})
	}
	want := []seat{
		{workload.Source, 1, []int{0, 2}, []int{0}},
		{workload.Sink, 2, []int{0, 2}, []int{1}},
		{workload.Source, 2, []int{1}, []int{0}},
		{workload.Sink, 1, []int{1}, []int{1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{2, 2, 1, 1}, g.seats); diff != "" {
		t.Errorf("seats (-want +got):\n%s", diff)
	}
}

// What was kept can be read again: trials at once, histograms with the end of their group.
func TestAggregator(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cells := []experiment.Cell{{Cell: measure.Cell{ID: "a", Group: "g", Primary: "latency_p50"}}}
	a, err := newAggregator(dir, measure.Run{Name: "n", Cells: []measure.Cell{cells[0].Cell}}, cells)
	if err != nil {
		t.Fatal(err)
	}
	read := func() *measure.Log {
		t.Helper()
		f, err := os.Open(filepath.Join(dir, RecordsFile))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		log, problems, err := measure.Read(f)
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		return log
	}
	for block := range 3 {
		h := traffic.NewHistogram()
		for i := range int64(300) {
			if err := h.RecordValue(10_000 + i); err != nil {
				t.Fatal(err)
			}
		}
		one := trial{
			timing:    traffic.Timing{Opened: 2e9, Dead: 70 * time.Microsecond},
			result:    workload.Result{Metrics: map[string]float64{"latency_p50": 1e-5}, Window: 90 * time.Millisecond},
			durations: [traffic.Quantities]*hdrhistogram.Histogram{h},
		}
		if err := a.block(0, block, []trial{one}, measure.BlockFacts{Block: block}, 1e9); err != nil {
			t.Fatal(err)
		}
	}
	log := read()
	if len(log.Trials) != 3 || len(log.Blocks) != 3 || len(log.Histograms) != 0 {
		t.Errorf("after three blocks: %d trials, %d blocks, %d histograms on disk; want 3, 3, 0", len(log.Trials),
			len(log.Blocks), len(log.Histograms))
	}
	want := measure.Trial{
		Type: "trial", V: measure.Version, Block: 2, Cell: "a", Start: 1, Duration: 0.09,
		Metrics: map[string]float64{"latency_p50": 1e-5, "dead_time": 7e-5, "drain_time": 0},
	}
	if diff := cmp.Diff(want, log.Trials[2], cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Errorf("trial (-want +got):\n%s", diff)
	}
	if err := a.endGroup(0, true); err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	log = read()
	if len(log.Histograms) != 1 || log.Histograms[0].Samples != 900 || log.Histograms[0].First != 0 ||
		log.Histograms[0].Last != 2 {
		t.Errorf("histograms %+v, want one of 900 samples from blocks 0 to 2", log.Histograms)
	}
}

// Latencies are written every so many blocks and at the end of a generation; other durations, of which workloads on a
// schedule have several, only there: what a trial takes on disk may not grow with them.
func TestAggregatorQuantities(t *testing.T) {
	cells := []experiment.Cell{{Cell: measure.Cell{ID: "a", Group: "g", Primary: "latency_p50"}}}
	a, err := newAggregator("", measure.Run{Name: "n", Cells: []measure.Cell{cells[0].Cell}}, cells)
	if err != nil {
		t.Fatal(err)
	}
	const blocks = groupBlocks + 3
	for block := range blocks {
		one := trial{result: workload.Result{
			Metrics: map[string]float64{"latency_p50": 1e-5, "service_time_p50": 1e-5, "service_time_mean": 1e-5},
			Window:  90 * time.Millisecond,
		}}
		for _, q := range []traffic.Quantity{traffic.Latency, traffic.Service} {
			one.durations[q] = traffic.NewHistogram()
			if err := one.durations[q].RecordValue(10_000); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.block(0, block, []trial{one}, measure.BlockFacts{Block: block}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.endGroup(0, true); err != nil {
		t.Fatal(err)
	}
	type record struct {
		Metric      string
		First, Last int
		Samples     int64
	}
	var got []record
	for _, h := range a.log.Histograms {
		got = append(got, record{h.Metric, h.First, h.Last, h.Samples})
	}
	want := []record{
		{"", 0, groupBlocks - 1, groupBlocks},
		{"", groupBlocks, blocks - 1, 3},
		{"service_time", 0, blocks - 1, blocks},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("histograms (-want +got):\n%s", diff)
	}
	if m := a.log.Trials[0].Metrics; m["latency_p50"] == 0 || m["service_time_p50"] != 0 || m["service_time_mean"] != 0 {
		t.Errorf("a trial has %v: want the median of latencies, and nothing of the service time", m)
	}
}

// Of two runs that both found a directory empty, the second is refused and changes nothing.
func TestAggregatorAlone(t *testing.T) {
	dir := t.TempDir()
	first, err := newAggregator(dir, measure.Run{Name: "first"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newAggregator(dir, measure.Run{Name: "second"}, nil); !errors.Is(err, ErrTaken) {
		t.Errorf("error %v, want ErrTaken", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil || !strings.Contains(string(text), `"first"`) {
		t.Errorf("%v: run.json holds %s", err, text)
	}
}

func TestMonitor(t *testing.T) {
	m := newMonitor((&labtest.Fake{}).Watch)
	if s := m.stealing(); s != 0 {
		t.Errorf("nothing watched, %v stolen", s)
	}
	end, err := m.block(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	facts := end()
	if facts.Generation != 1 || facts.Block != 2 || facts.Duration <= 0 || math.IsNaN(facts.CPU["idle"]) {
		t.Errorf("%+v", facts)
	}
}
