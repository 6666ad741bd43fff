package tcpcrr_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcpcrr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, tcpcrr.Workload{},
		map[string]string{},
		map[string]string{"closes": "source", "payload": "100", "response": "200"},
		map[string]string{"rate": "4k/s"},
	)
}
