package burst_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/burst"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, burst.Workload{},
		map[string]string{"rate": "10Mbit/s", "on": "40ms", "off": "10ms"},
		map[string]string{"rate": "20Mbit/s", "off": "0s", "payload": "100", "flows": "4"})
}
