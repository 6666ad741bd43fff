package sockperf_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/sockperf"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/udprr"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, sockperf.Driver{},
		drivertest.Case{Load: udprr.Workload{}, Pairs: 2, Taken: "Address already in use"},
		drivertest.Case{Load: udprr.Workload{}, Given: map[string]string{"mode": "spin", "payload": "1024"}},
		drivertest.Case{Load: udprate.Workload{}},
	)
}
