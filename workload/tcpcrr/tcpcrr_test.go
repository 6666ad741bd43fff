package tcpcrr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/tcpcrr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, tcpcrr.Workload{},
		map[string]string{},
		map[string]string{"closes": "source", "payload": "100", "response": "200"},
		// of a trial of the suite a busy machine has time for a half, and a median needs 200
		map[string]string{"rate": "6k/s"},
	)
}

// A stall of 1 ms every 50 ms is 2 % of the time. Of connections that are due every 200 µs five are due during a stall,
// and wait for 1 ms down to 0.2 ms; and since there is one connection at a time, those that have waited still follow
// each other when it is over, some 100 µs each, and hold up one or two more. So 2 to 4 % of the transactions on a
// schedule take longer than 0.3 ms, and the 99th percentile sees it; what is due after that is on time again. In a
// closed loop nothing is due while the sink stands still: each stall is one slow transaction, of the several hundred
// between two stalls.
//
// Other work on the machine makes transactions slower, and none faster: fewer slow ones than the stalls make are wrong
// in any trial. How many there are is told by a round in which the same schedule without stalls shows that nothing else
// happened.
func TestStalls(t *testing.T) {
	const (
		slow     = 300 * time.Microsecond
		patience = 4 * time.Second
		few      = 5 // quiet rounds: what happens next may happen in another trial of one
	)
	rig := func(given map[string]string, stall workload.Stall) *workloadtest.Rig {
		return workloadtest.NewRig(t, tcpcrr.Workload{}, workloadtest.Options{
			Pairs: 1, Length: workloadtest.StallLength, Given: given, Stall: stall,
		})
	}
	still := workload.Stall{Every: workloadtest.StallEvery, For: workloadtest.StallFor}
	schedule := map[string]string{"rate": "5k/s"}
	open, going, closed := rig(schedule, still), rig(schedule, workload.Stall{}), rig(nil, still)
	share := func(r *workloadtest.Rig) (share float64, p99 time.Duration, all bool) {
		trial, result := r.Trial(t)
		h := trial.Histograms[traffic.Latency]
		if h == nil {
			return 0, 0, false
		}
		over := int64(0)
		for _, bar := range h.Distribution() {
			if bar.From > int64(slow) {
				over += bar.Count
			}
		}
		return float64(over) / float64(h.TotalCount()), time.Duration(h.ValueAtQuantile(99)), len(result.Warnings) == 0
	}
	quiet, right, unseen := 0, false, false
	for start := time.Now(); time.Since(start) < patience && !(right && unseen); {
		if got, p99, all := share(closed); !unseen && all && got < 0.005 && p99 < slow {
			unseen = true
			t.Logf("in a closed loop %.2f %% take longer than %v, p99 %v", 100*got, slow, p99)
		}
		control, _, whole := share(going)
		got, p99, all := share(open)
		if all && (got < 0.015 || p99 < slow) {
			t.Errorf("on a schedule %.2f %% take longer than %v, p99 %v: fewer than the stalls make", 100*got, slow, p99)
		}
		if whole && control < 0.003 {
			quiet++
		}
		if !right && whole && all && control < 0.003 && got < 0.04 {
			right = true
			t.Logf("on a schedule %.2f %% take longer than %v, p99 %v", 100*got, slow, p99)
		}
	}
	switch {
	case right && unseen:
	case quiet > few:
		t.Errorf("in none of %d quiet rounds is it as it should be (on a schedule: %t, in a closed loop: %t)", quiet, right,
			unseen)
	default:
		t.Logf("the machine was not quiet for long enough in %v (on a schedule: %t, in a closed loop: %t)", patience, right,
			unseen)
	}
}

// What is planted is found again.
func TestPlanted(t *testing.T) {
	r := workloadtest.NewRig(t, tcpcrr.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 50 * time.Millisecond, Plant: 20 * time.Microsecond,
	})
	_, result := r.Trial(t)
	if got := result.Metrics["planted"]; got < 20e-6 || got > 1e-3 {
		t.Errorf("planted %g s, want 20 µs", got)
	}
}

func TestRefuse(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"closes=both", "valid: source, sink"},
		{"ports=65", "from 1 to 64"},
		{"arrivals=poisson", "arrivals=poisson needs a rate"},
		{"sizes=uniform", "needs a rate"},
		{"sizes=uniform,rate=1k/s", "payload=1: requests of different lengths say theirs in 4 bytes"},
		{"payload=0", "out of range (valid: 1 to 1048576 bytes)"},
	} {
		_, given, err := part.Parse("workload", "tcp-crr("+tt.given+")")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (tcpcrr.Workload{}).Describe().Resolve(given); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.given, err, tt.want)
		}
	}
}
