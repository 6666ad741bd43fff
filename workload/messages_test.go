package workload_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
)

// Messages are counted at the end that sent them and at the end that received them, in both directions.
func TestPutMessages(t *testing.T) {
	h := traffic.NewHistogram()
	for i := range int64(50) {
		if err := h.RecordValue(1000 * (i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	ms := int64(time.Millisecond)
	trial := workload.Trial{
		Window: 2 * time.Second, Length: 2 * time.Second,
		Sources: []traffic.Sample{
			{Sent: 100, Total: 110, Counts: traffic.Counts{traffic.CountBacklog: 3}, CPU: ms, Span: 2000 * ms},
			// both ends send
			{Sent: 100, Total: 100, Received: 40, Bytes: 4000, Counts: traffic.Counts{
				traffic.CountBacklog: 5, flows.CountFlows: 1, flows.CountJitter: 39_000,
			}, CPU: ms, Span: 2000 * ms},
		},
		Sinks: []traffic.Sample{
			{Received: 90, Total: 99, Bytes: 9000, Counts: traffic.Counts{
				flows.CountFlows: 2, flows.CountJitter: 88_000, traffic.CountRepeated: 9, traffic.CountFirst: 3000,
			}, CPU: ms, Span: 2000 * ms},
			{Sent: 50, Total: 50, Received: 100, Bytes: 10_000, Counts: traffic.Counts{
				traffic.CountReordered: 23, flows.CountFlows: 4, flows.CountJitter: 96_000, traffic.CountFirst: 5000,
			}, CPU: ms, Span: 2000 * ms},
		},
	}
	trial.Histograms[traffic.OneWay] = h
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}}
	if received := trial.PutMessages(&r); received != 230 {
		t.Errorf("%d received, want 230", received)
	}
	want := map[string]float64{
		"goodput": 8 * 23000 / 2, "goodput_per_pair": 8 * 23000 / 4, "packet_rate": 115, "packet_rate_per_pair": 57.5,
		"packet_rate_sent": 125,
		"loss":             20.0 / 250, "duplicates": 9.0 / 230, "reordering": 0.1, "jitter": 1e-6,
		"first_packet_latency": 4e-6,
		"backlog":              5,
		"cpu_per_packet":       0.004 / 260, "oneway_latency_mean": 25.5e-6, "oneway_latency_p50": 25e-6,
		"oneway_latency_iqr": 25e-6, // from 13 to 38
	}
	for name, x := range want {
		if got := r.Metrics[name]; math.Abs(got-x) > 2e-3*x {
			t.Errorf("%s = %g, want %g", name, got, x)
		}
	}
	if diff := cmp.Diff(map[string][]float64{"goodput": {36_000, 56_000}, "packet_rate": {45, 70}},
		r.PerPair); diff != "" {
		t.Errorf("by pair (-want +got):\n%s", diff)
	}
	for name := range r.Metrics {
		if _, known := (workload.Description{}).Vocabulary().Lookup(name); !known ||
			!slices.Contains(workload.MessageMetrics(), name) {
			t.Errorf("metric %q is not among those that are named", name)
		}
	}
	if len(r.Warnings) != 1 {
		t.Errorf("warnings %q, want one of loss", r.Warnings)
	}
	stream := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}}
	trial.Params = part.Params{"congestion": "auto"}
	if trial.PutMessages(&stream); len(stream.Warnings) != 1 ||
		!strings.Contains(stream.Warnings[0], "a stream loses none") {
		t.Errorf("warnings %q of streams, want one that they are late", stream.Warnings)
	}
}
