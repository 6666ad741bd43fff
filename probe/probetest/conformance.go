package probetest

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

func number(f *os.File) string { return strconv.Itoa(int(f.Fd())) }

// Conformance checks that a probe describes itself, counts only while it is switched on, and adds exactly the metrics
// that it declares. Busy causes events that the probe counts, on the given CPUs.
func Conformance(t *testing.T, p probe.Probe, cpus []int, busy func(t *testing.T)) {
	t.Run("description", func(t *testing.T) { describes(t, p) })
	t.Run("metrics", func(t *testing.T) { puts(t, p) })
	t.Run("counts", func(t *testing.T) { counts(t, p, cpus, busy) })
}

func describes(t *testing.T, p probe.Probe) {
	d := p.Describe()
	for what, text := range map[string]string{
		"name": d.Name, "summary": d.Summary, "needs": d.Needs, "choice": d.Choice, "implementation": d.Implementation,
		"switches": d.Switches,
	} {
		if text == "" {
			t.Errorf("the probe has no %s", what)
		}
	}
	if _, err := measure.NewVocabulary(slices.Concat(workload.Metrics(), d.Metrics)...); err != nil {
		t.Error(err)
	}
	v := d.View(nil)
	if v.Name != d.Name || v.Title == "" || v.Switches == "" || v.Meaning == "" || len(v.Columns) != len(v.Metrics) {
		t.Errorf("what reports say of it is incomplete: %+v", v)
	}
	for _, name := range v.Metrics {
		if !declared(d, name) {
			t.Errorf("reports show metric %q, which the probe does not declare", name)
		}
	}
}

func declared(d probe.Description, name string) bool {
	return slices.ContainsFunc(d.Metrics, func(m measure.Metric) bool { return m.Name == name })
}

func puts(t *testing.T, p probe.Probe) {
	trial := workload.Trial{
		Length: 1e9, Sources: []traffic.Sample{{CPU: 1e8, Span: 1e9}},
		Sinks: []traffic.Sample{{CPU: 1e8, Span: 1e9}},
	}
	metrics := map[string]float64{"cpu_per_packet": 1e-6}
	p.Put(metrics, trial, 1e6)
	if len(metrics) == 1 || metrics["cpu_per_packet"] != 1e-6 {
		t.Errorf("metrics of a probed trial: %v", metrics)
	}
	for name := range metrics {
		if name != "cpu_per_packet" && !declared(p.Describe(), name) {
			t.Errorf("metric %q is not declared", name)
		}
	}
}

func counts(t *testing.T, p probe.Probe, cpus []int, busy func(t *testing.T)) {
	l, err := p.Load()
	testnet.Skip(t, err)
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read, err := p.Open(f, cpus)
	if err != nil {
		t.Fatal(err)
	}
	busy(t)
	if n := read(); n != 0 {
		t.Errorf("it counted %d before it was switched on", n)
	}
	for range 2 { // on and off as often as there are blocks
		before := read()
		if err := l.On(); err != nil {
			testnet.Skip(t, err)
		}
		if err := l.On(); err != nil {
			t.Errorf("switch it on twice: %v", err)
		}
		busy(t)
		if n := read(); n <= before {
			t.Errorf("it counted %d while it was on, %d before", n, before)
		}
		if err := l.Off(); err != nil {
			t.Fatal(err)
		}
		off := read()
		busy(t)
		if n := read(); n != off {
			t.Errorf("it counted %d when it was off, %d before", n, off)
		}
	}
	if n := testing.AllocsPerRun(100, func() { read() }); n != 0 {
		t.Errorf("reading allocates %g times", n)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}
