package netperf_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/netperf"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/udprr"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, netperf.Driver{},
		drivertest.Case{Load: udprate.Workload{}, Pairs: 2},
		drivertest.Case{Load: udprate.Workload{}, IPv6: true, Given: map[string]string{"payload": "1024"}},
		drivertest.Case{Load: udprr.Workload{}},
		drivertest.Case{Load: tcpstream.Workload{}},
		drivertest.Case{Load: tcpstream.Workload{}, IPv6: true, Given: map[string]string{"message": "1024"}},
	)
}
