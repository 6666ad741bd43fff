package workload_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// A source is behind if it has sent less than was due in the window. Random arrivals are not always as many as the
// mean.
func TestBehind(t *testing.T) {
	for _, tt := range []struct {
		arrivals     string
		sent, unsent int64
		rate         float64
		behind, said bool
	}{
		{"constant", 1000, 0, 1000, false, false},
		{"constant", 995, 0, 1000, false, false},
		{"constant", 985, 0, 1000, true, false}, // from an external program
		{"", 985, 0, 1000, true, false},
		{"poisson", 985, 0, 1000, false, false},
		{"poisson", 1050, 15, 1000, true, true},
		{"constant", 998, 2, 1000, false, true},
		{"constant", 9999, 1, 10_000, false, false},
		{"constant", 0, 0, 0, false, false}, // nothing is due
		{"poisson", 0, 1000, 1000, true, true},
	} {
		trial := workload.Trial{
			Params: part.Params{"arrivals": tt.arrivals}, Window: time.Second, Length: time.Second,
			Sources: []traffic.Sample{{Sent: tt.sent, Unsent: tt.unsent}},
		}
		if got := trial.Behind(tt.rate); got != tt.behind {
			t.Errorf("%+v: behind %v", tt, got)
		}
		if got := trial.Doubts(); (len(got) > 0) != tt.said {
			t.Errorf("%+v: says %q", tt, got)
		}
		r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}}
		trial.PutExchange(&r, tt.rate)
		if slices.Contains(r.Warnings, workload.FellBehind) != tt.behind {
			t.Errorf("%+v: warnings %q", tt, r.Warnings)
		}
	}
}
