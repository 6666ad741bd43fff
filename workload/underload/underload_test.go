package underload_test

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/underload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, underload.Workload{},
		map[string]string{},
		map[string]string{"share": "10%", "mode": "spin", "answer-every": "2"},
		map[string]string{
			"share": "none", "rate": "20k/s", "answer-every": "2", "arrivals": "poisson", "sizes": "uniform",
			"payload": "500",
		},
	)
}

// The workload also works over IPv6.
func TestIPv6(t *testing.T) {
	where := workloadtest.Where{Address: netip.IPv6Loopback(), Do: func(f func() error) error { return f() }}
	r := workloadtest.NewRig(t, underload.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 150 * time.Millisecond, Given: map[string]string{"answer-every": "2", "dscp": "46"},
		Where: map[workload.Side]workloadtest.Where{workload.Source: where, workload.Sink: where},
	})
	const most = 40 // for a machine on which other work takes the CPUs
	for range most {
		if _, result := r.Trial(t); result.Metrics["latency_p50"] > 0 && result.Metrics["capacity"] > 0 {
			return
		}
	}
	t.Errorf("none of %d trials has a latency", most)
}

// over returns the share of latencies above a limit, and their 99th percentile.
func over(trial workload.Trial, limit time.Duration) (share float64, p99 time.Duration) {
	h := trial.Histograms[traffic.Latency]
	if h == nil {
		return math.NaN(), 0
	}
	n := int64(0)
	for _, b := range h.Distribution() {
		if b.From > int64(limit) {
			n += b.Count
		}
	}
	return float64(n) / float64(h.TotalCount()), time.Duration(h.ValueAtQuantile(99))
}

// A sink that stands still for 1 ms every 50 ms delays 2 % of the datagrams: those due meanwhile, which wait for the
// rest of the stall, from 1 ms down to nothing. So a share of 1 − x of the 2 % waits longer than x ms: 1.5 % longer
// than 0.25 ms, and 1 %, which is the 99th percentile, longer than 0.5 ms. A closed loop sends nothing while it waits
// and sees one slow round trip out of thousands: its p99 does not move.
//
// The effects of other work on the CPUs come on top of that. So no trial may have much less than that. It must have
// exactly that next to a trial in which the same sink, without stalls, shows that nothing else happened. On a machine
// that is never quiet for two tenths of a second, only the first can be checked.
func TestStall(t *testing.T) {
	const (
		limit    = 250 * time.Microsecond
		patience = 8 * time.Second
	)
	rig := func(stall workload.Stall) *workloadtest.Rig {
		return workloadtest.NewRig(t, underload.Workload{}, workloadtest.Options{
			Pairs: 1, Length: 125 * time.Millisecond, Given: map[string]string{
				"share": "none", "rate": "20k/s", "answer-every": "1",
			}, Stall: stall,
		})
	}
	still, going := rig(workload.Stall{Every: 50 * time.Millisecond, For: time.Millisecond}), rig(workload.Stall{})
	quiet := 0
	for start := time.Now(); time.Since(start) < patience; {
		control, _ := going.Trial(t)
		trial, _ := still.Trial(t)
		share, p99 := over(trial, limit)
		// for lost datagrams, it is unknown how late they were
		if trial.Sinks[0].Received == trial.Sources[0].Sent && share < 0.013 {
			t.Errorf("%.2f %% of the latencies are above %v beside a sink that stands still, want 1.5", 100*share, limit)
		}
		if s, p := over(control, limit); !(s < 0.003 && p < limit) {
			continue
		}
		if quiet++; share < 0.02 && p99 > 400*time.Microsecond && p99 < 700*time.Microsecond {
			return
		}
		t.Logf("%.2f %% of the latencies are above %v, p99 %v", 100*share, limit, p99)
	}
	const few = 5 // the next moment may be different
	if quiet > few {
		t.Errorf("none of %d trials beside a quiet one is as it should be", quiet)
	}
	t.Logf("the machine was quiet %d times in %v", quiet, patience)
}
