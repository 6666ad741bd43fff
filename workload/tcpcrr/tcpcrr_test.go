package tcpcrr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/tcpcrr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, tcpcrr.Workload{},
		map[string]string{},
		map[string]string{"closes": "source", "payload": "100", "response": "200"},
		// a busy machine completes half of a trial of the suite, and a median needs 200 transactions
		map[string]string{"rate": "6k/s"},
	)
}

// A stall of 1 ms every 50 ms is 2 % of the time. If connections are due every g = 333 µs, three are due during a
// stall, and wait for 1 ms down to 0.33 ms. There is only one connection at a time, so the delayed ones follow each
// other when the stall is over, and delay more: if each takes c, (0.7 ms + c) / (g - c) of them take longer than 0.3
// ms. That is 1.8 to 3.8 % for c of 50 to 180 µs, and the 99th percentile shows it. Later ones are on time again. In a
// closed loop, nothing is due while the sink stands still: each stall is one slow transaction, out of several hundred
// between two stalls.
func TestStalls(t *testing.T) {
	rig := func(given map[string]string, stall workload.Stall) *workloadtest.Rig {
		return workloadtest.NewRig(t, tcpcrr.Workload{}, workloadtest.Options{
			Pairs: 1, Length: workloadtest.StallLength, Given: given, Stall: stall,
		})
	}
	still := workload.Stall{Every: workloadtest.StallEvery, For: workloadtest.StallFor}
	schedule := map[string]string{"rate": "3k/s"}
	late := workloadtest.Late{Least: 0.015, Most: 0.04, MostMore: 0.04, P99: workloadtest.StallFor}
	workloadtest.Stalls(t, late, rig(schedule, still), rig(schedule, workload.Stall{}), rig(nil, still))
}

// A planted delay is found.
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
		{"sizes=uniform,rate=1k/s", "payload=1: requests of different lengths hold their length in 4 bytes"},
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
