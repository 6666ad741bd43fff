package dnsperf_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/dnsperf"
	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/dns"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, dnsperf.Driver{},
		drivertest.Case{Load: dns.Workload{}, Pairs: 2, Given: map[string]string{"in-flight": "32"}},
		drivertest.Case{Load: dns.Workload{}, IPv6: true, Given: map[string]string{
			"clients": "4", "in-flight": "8", "type": "AAAA",
		}},
		drivertest.Case{Load: dns.Workload{}, Given: map[string]string{
			"transport": "tcp", "clients": "2", "in-flight": "16",
		}},
	)
}
