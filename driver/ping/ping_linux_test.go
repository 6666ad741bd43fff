package ping_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/ping"
	"github.com/nettoll/nettoll/internal/testnet"
	load "github.com/nettoll/nettoll/workload/ping"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, ping.Driver{},
		drivertest.Case{Load: load.Workload{}, Pairs: 2},
		drivertest.Case{Load: load.Workload{}, Given: map[string]string{"interval": "flood"}},
		drivertest.Case{Load: load.Workload{}, IPv6: true, Given: map[string]string{"interval": "2ms", "payload": "1024"}},
	)
}
