package netperf_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/netperf"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcpcrr"
	"github.com/nettoll/nettoll/workload/tcprr"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/udprr"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, netperf.Driver{},
		drivertest.Case{Load: udprr.Workload{}, Pairs: 2, Taken: "Unable to start netserver"},
		drivertest.Case{Load: udprate.Workload{}},
		drivertest.Case{Load: udprr.Workload{}, IPv6: true, Given: map[string]string{"payload": "100", "response": "200"}},
		drivertest.Case{Load: tcprr.Workload{}},
		drivertest.Case{Load: tcpcrr.Workload{}},
		drivertest.Case{Load: tcpstream.Workload{}},
		drivertest.Case{
			Load: tcpstream.Workload{}, IPv6: true,
			Given: map[string]string{"direction": "reverse", "message": "1024"},
		},
	)
}
