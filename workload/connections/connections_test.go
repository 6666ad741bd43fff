package connections_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/connections"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, connections.Workload{},
		map[string]string{},
		map[string]string{"connections": "1", "rate": "20Mbit/s", "payload": "100"})
}
