package udprr_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/udprr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, udprr.Workload{},
		map[string]string{},
		map[string]string{"mode": "spin", "in-flight": "8", "response": "200", "flows": "3"},
		map[string]string{"mode": "spin", "payload": "1", "response": "1", "flow": "fresh"},
		map[string]string{"rate": "4k/s", "arrivals": "poisson", "sizes": "uniform", "flows": "2"},
		map[string]string{"timestamps": "software", "payload": "1024"},
	)
}
