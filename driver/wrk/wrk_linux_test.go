package wrk_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/wrk"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/http"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, wrk.Driver{},
		drivertest.Case{
			Load: http.Workload{}, Given: map[string]string{"server": "nginx"}, Server: "nginx",
			Taken: "Address already in use",
		},
		drivertest.Case{Load: http.Workload{}, Pairs: 2, Given: map[string]string{"clients": "5"}},
		drivertest.Case{Load: http.Workload{}, IPv6: true, Given: map[string]string{"server": "nginx"}, Server: "nginx"},
	)
}
