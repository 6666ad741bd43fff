package workload_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

func TestSettled(t *testing.T) {
	trial := func(sources, sinks []traffic.Sample) workload.Trial {
		return workload.Trial{Window: 90, Length: 100, Sources: sources, Sinks: sinks}
	}
	type window struct{ Window, Length time.Duration }
	for _, tt := range []struct {
		name string
		t    workload.Trial
		want window
	}{
		{"our own engine", trial([]traffic.Sample{{Span: 120}}, []traffic.Sample{{Span: 121}}), window{90, 100}},
		{"the client says", trial([]traffic.Sample{{Window: 50, Span: 60}, {Window: 70, Span: 80}},
			[]traffic.Sample{{Span: 99}, {Span: 99}}), window{60, 70}},
		{"the server says", trial([]traffic.Sample{{Span: 99}}, []traffic.Sample{{Window: 50, Span: 60}}), window{50, 60}},
		{"nobody there", trial(nil, nil), window{90, 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.t.Settled()
			if diff := cmp.Diff(tt.want, window{got.Window, got.Length}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A server of nettoll, or one that serves any client, exists longer than the client of a driver that has traffic. A
// program's server reports itself how long it worked.
func TestSettledServer(t *testing.T) {
	trial := workload.Trial{
		Window: 90, Length: 100,
		Sources: []traffic.Sample{{Window: 50, Span: 60}, {Window: 50, Span: 60}, {Window: 50, Span: 60}},
		Sinks:   []traffic.Sample{{CPU: 30, Span: 100}, {CPU: 30, Span: 70}, {CPU: 30, Span: 120, Window: 10}},
	}
	got := trial.Settled()
	for i, want := range []int64{60, 70, 120} {
		if got.Sinks[i].Span != want {
			t.Errorf("sink %d: %d ns, want %d", i, got.Sinks[i].Span, want)
		}
	}
	if trial.Sinks[0].Span != 100 {
		t.Errorf("the trial itself: %+v", trial.Sinks)
	}
}

// What an external program reports about its other end is assigned to that end; what was observed there has precedence.
func TestTold(t *testing.T) {
	sources := []traffic.Sample{
		{Sent: 5, Window: 50, Span: 60, Foreign: traffic.Foreign{
			Peer: &traffic.Sample{Received: 4, Bytes: 256, Span: 1}, Median: 7e3, Mean: 8e3,
		}},
	}
	sinks := []traffic.Sample{{Span: 90, CPU: 3, Failure: "x"}}
	got := workload.Trial{Length: 100, Sources: sources, Sinks: sinks}.Settled()
	if diff := cmp.Diff([]traffic.Sample{{Received: 4, Bytes: 256, Span: 90, CPU: 3, Failure: "x"}},
		got.Sinks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if sinks[0].Received != 0 || got.Window != 50 {
		t.Errorf("the trial itself: %+v, window %v", sinks, got.Window)
	}
	metrics := map[string]float64{}
	got.PutDurations(metrics)
	if diff := cmp.Diff(map[string]float64{"latency_mean": 8e-6, "latency_p50": 7e-6}, metrics); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFailure(t *testing.T) {
	failed := func(reason string) traffic.Sample { return traffic.Sample{Failure: reason} }
	for _, tt := range []struct {
		sources, sinks []traffic.Sample
		want           string
	}{
		{[]traffic.Sample{{}}, []traffic.Sample{{}}, ""},
		{[]traffic.Sample{{}, failed("a")}, []traffic.Sample{{}, {}}, "pair 1: a"},
		{[]traffic.Sample{{}, failed("a")}, []traffic.Sample{{}, failed("b")}, "pair 1: a; b"},
		{[]traffic.Sample{{}, failed("a")}, []traffic.Sample{failed("b"), {}}, "pair 0: b"},
		{[]traffic.Sample{failed("a")}, []traffic.Sample{failed("a")}, "pair 0: a"},
	} {
		if got := (workload.Trial{Sources: tt.sources, Sinks: tt.sinks}).Failure(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
