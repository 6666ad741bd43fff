package ditg_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/ditg"
	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/burst"
	"github.com/nettoll/nettoll/workload/quake3"
	"github.com/nettoll/nettoll/workload/udprate"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, ditg.Driver{},
		drivertest.Case{
			Load: udprate.Workload{}, Pairs: 2, Taken: "Cannot bind a socket",
			Given: map[string]string{"rate": "1k/s"},
		},
		drivertest.Case{Load: udprate.Workload{}, IPv6: true, Given: map[string]string{
			"rate": "1k/s", "payload": "1024", "arrivals": "poisson",
		}},
		drivertest.Case{Load: burst.Workload{}, Given: map[string]string{"on": "600ms", "off": "400ms"}},
		drivertest.Case{
			Load: burst.Workload{}, IPv6: true,
			Given: map[string]string{"rate": "1Mbit/s", "on": "1s", "off": "0s"},
		},
		drivertest.Case{Load: quake3.Workload{}, Given: map[string]string{"players": "1"}},
	)
}
