package iperf3_test

import (
	"testing"

	"github.com/nettoll/nettoll/driver/drivertest"
	"github.com/nettoll/nettoll/driver/iperf3"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/udprate"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, iperf3.Driver{},
		drivertest.Case{Load: tcpstream.Workload{}, Pairs: 2, Taken: "Address already in use"},
		drivertest.Case{Load: tcpstream.Workload{}, IPv6: true, Given: map[string]string{"message": "1024"}},
		drivertest.Case{Load: udprate.Workload{}},
		drivertest.Case{Load: udprate.Workload{}, IPv6: true, Given: map[string]string{"payload": "1024"}},
	)
}
