package control

import (
	"testing"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// A trial's record says how long the thread waited that waited longest, unless nobody watched some of them.
func TestRecordWaited(t *testing.T) {
	for _, tt := range []struct {
		name           string
		sources, sinks []traffic.Sample
		want           float64
		known          bool
	}{
		{
			"the longest",
			[]traffic.Sample{{Waited: 5, Span: 100}, {Waited: 1, Span: 100}},
			[]traffic.Sample{{Waited: 30, Span: 200}, {Span: 200}},
			0.15, true,
		},
		{"none waited", []traffic.Sample{{Span: 100}}, []traffic.Sample{{Span: 100}}, 0, true},
		{
			"a foreign program",
			[]traffic.Sample{{Waited: traffic.Unwatched, Span: 100}},
			[]traffic.Sample{{Waited: 30, Span: 100}},
			0, false,
		},
		{"no samples", nil, nil, 0, false},
	} {
		one := trial{samples: workload.Trial{Sources: tt.sources, Sinks: tt.sinks}}
		got, known := one.record(experiment.Cell{}, 0, 0, 0).Metrics[measure.WaitMetric]
		if got != tt.want || known != tt.known {
			t.Errorf("%s: %v (known %v), want %v (%v)", tt.name, got, known, tt.want, tt.known)
		}
	}
}
