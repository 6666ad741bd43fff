package underload_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
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
	witness.Until(t, workloadtest.Borne(), func() error {
		trial, result := r.Trial(t)
		if result.Metrics["latency_p50"] > 0 && result.Metrics["capacity"] > 0 {
			return nil
		}
		return fmt.Errorf("no latency or no capacity: %+v, %+v", result, trial)
	})
}

// A sink that stands still for 1 ms every 50 ms delays the datagrams that are due meanwhile, and [workloadtest.Stalls]
// says by how much. There is no closed loop to compare with. Windows begin after a fifth of a trial.
func TestStall(t *testing.T) {
	rig := func(stall workload.Stall) *workloadtest.Rig {
		return workloadtest.NewRig(t, underload.Workload{}, workloadtest.Options{
			Pairs: 1, Length: workloadtest.StallEvery * 10 / 8, Given: map[string]string{
				"share": "none", "rate": "20k/s", "answer-every": "1",
			}, Stall: stall,
		})
	}
	still := workload.Stall{Every: workloadtest.StallEvery, For: workloadtest.StallFor}
	workloadtest.Stalls(t, workloadtest.Even(), rig(still), rig(workload.Stall{}), nil)
}
