package nuttcp_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/nuttcp"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/udprate"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, nuttcp.Driver{},
		drivertest.Case{Load: tcpstream.Workload{}, Pairs: 2},
		drivertest.Case{Load: tcpstream.Workload{}, IPv6: true, Given: map[string]string{"message": "1024"}},
		drivertest.Case{Load: tcpstream.Workload{}, Given: map[string]string{"direction": "reverse"}},
		drivertest.Case{Load: udprate.Workload{}},
		drivertest.Case{Load: udprate.Workload{}, IPv6: true, Given: map[string]string{"payload": "1024", "rate": "10k/s"}},
	)
}
