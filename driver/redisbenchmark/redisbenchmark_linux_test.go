package redisbenchmark_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/redisbenchmark"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/kv"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	const untold = 0.4 // between its last report and its end
	drivertest.Conformance(t, redisbenchmark.Driver{},
		drivertest.Case{
			Load: kv.Workload{}, Given: map[string]string{"server": "redis"}, Server: "redis-server",
			Taken: "Address already in use", Untold: untold,
		},
		drivertest.Case{
			Load: kv.Workload{}, Pairs: 2, Given: map[string]string{"clients": "5", "payload": "100"},
			Untold: untold,
		},
		drivertest.Case{
			Load: kv.Workload{}, IPv6: true, Given: map[string]string{"server": "redis", "operation": "set"},
			Server: "redis-server", Untold: untold,
		},
	)
}
