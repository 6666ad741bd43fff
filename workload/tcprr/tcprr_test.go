package tcprr_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcprr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, tcprr.Workload{},
		map[string]string{},
		map[string]string{"mode": "spin", "payload": "100", "response": "200"},
		map[string]string{"in-flight": "8"},
		map[string]string{"flows": "4"},
		map[string]string{"rate": "4k/s"}, // a trial of the suite has time for 200 requests, which a median needs, from 3k/s on
	)
}
