package softirq

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// For 1000 packets that took 40 ms of CPU time in 100 ms, softirqs took 15 ms: nothing else changes.
func TestPut(t *testing.T) {
	trial := workload.Trial{
		Length:   100 * time.Millisecond,
		Sources:  []traffic.Sample{{CPU: 20e6, Span: 90e6}},
		Sinks:    []traffic.Sample{{CPU: 15e6, Span: 100e6}},
		Softirqd: 5 * time.Millisecond,
	}
	for _, c := range []struct{ name, metric string }{{"packets", "cpu_per_packet"}, {"bytes", "service_demand"}} {
		metrics := map[string]float64{}
		metrics[c.metric] = trial.PutCPU(metrics) / 1000
		want := map[string]float64{"cpu_softirq": 0.15}
		maps.Copy(want, metrics)
		if c.name == "packets" {
			want["softirq_per_packet"] = 15e-6
		}
		Probe{}.Put(metrics, trial, int64(15*time.Millisecond))
		if diff := cmp.Diff(want, metrics, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	metrics := map[string]float64{}
	Probe{}.Put(metrics, workload.Trial{Sources: []traffic.Sample{{}}}, int64(time.Millisecond))
	if len(metrics) > 0 {
		t.Errorf("of a trial without traffic: %v", metrics)
	}
}
