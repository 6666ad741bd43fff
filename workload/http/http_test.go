package http

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, Workload{},
		map[string]string{},
		map[string]string{"connection": "new", "clients": "4"},
		map[string]string{"rate": "3k/s", "arrivals": "poisson", "payload": "16KiB"},
		map[string]string{"connection": "new", "rate": "3k/s", "payload": "0"},
	)
}
