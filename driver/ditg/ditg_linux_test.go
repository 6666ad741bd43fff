package ditg_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/ditg"
	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/udprate"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, ditg.Driver{},
		drivertest.Case{Load: udprate.Workload{}, Pairs: 2, Taken: "Cannot bind a socket", Given: map[string]string{"rate": "1k/s"}},
		drivertest.Case{Load: udprate.Workload{}, IPv6: true, Given: map[string]string{"rate": "1k/s", "payload": "1024", "arrivals": "poisson"}},
	)
}
