package catalogue

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
)

// Every metric that records of earlier runs may hold is still declared, and means what it meant.
func TestMetrics(t *testing.T) {
	declared, err := New().Metrics()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range measure.Version2().All() {
		got, _ := declared.Lookup(want.Name)
		if got.Summary == "" || strings.HasSuffix(got.Summary, ".") {
			t.Errorf("metric %q: summary %q, want a sentence without its full stop", want.Name, got.Summary)
		}
		got.Summary, got.Note = "", "" // older records have the notes of their time
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("metric %q (-recorded +declared):\n%s", want.Name, diff)
		}
	}
	orders := map[int]string{}
	for _, m := range declared.All() {
		if other := orders[m.Order]; other != "" {
			t.Errorf("metrics %q and %q have the same place in views, %d", other, m.Name, m.Order)
		}
		orders[m.Order] = m.Name
	}
}

// Whatever a workload says its trials may have is declared.
func TestWorkloadMetrics(t *testing.T) {
	parts := New().Parts()
	for _, w := range parts.Workloads {
		for _, name := range w.Describe().Metrics {
			if _, known := parts.Metrics.Lookup(name); !known {
				t.Errorf("workload %s has metric %q, which no part declares", w.Describe().Name, name)
			}
		}
	}
}

// Reports say of the probe of runs that have no words of their own what they say of the probe softirq today.
func TestProbeOfEarlierRuns(t *testing.T) {
	for _, facts := range []map[string]any{nil, {"irq_time_accounting": true}, {"irq_time_accounting": false}} {
		earlier := measure.Run{Facts: facts}
		for _, p := range New().Probes {
			if d := p.Describe(); d.Name == earlier.Probed().Name {
				if diff := cmp.Diff(earlier.Probed(), d.View(facts)); diff != "" {
					t.Errorf("facts %v (-earlier +today):\n%s", facts, diff)
				}
			}
		}
	}
}

// declaring is a kind that declares a metric.
type declaring struct{ stack.Kind }

func (declaring) Metrics() []measure.Metric {
	return []measure.Metric{{
		Name: "hop_time", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime, Order: 9999,
		Summary: "time of a hop",
	}}
}

// A workload that reports whatever is declared knows a metric that only a new kind has.
func TestReportedMetrics(t *testing.T) {
	c := New()
	c.Kinds = append(slices.Clone(c.Kinds), declaring{c.Kinds[len(c.Kinds)-1]})
	found := 0
	for _, w := range c.Parts().Workloads {
		if _, ok := w.(workload.Reporter); !ok {
			continue
		}
		found++
		params, err := w.Describe().Resolve(map[string]string{"metric": "hop_time"})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Describe().Primary(params); got != "hop_time" {
			t.Errorf("%s has the primary metric %q", w.Describe().Name, got)
		}
	}
	if found == 0 {
		t.Error("no workload reports what is declared")
	}
}
