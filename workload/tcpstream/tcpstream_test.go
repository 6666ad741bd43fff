package tcpstream_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, tcpstream.Workload{},
		map[string]string{},
		map[string]string{"direction": "reverse", "zerocopy": "true"},
		map[string]string{"direction": "both", "message": "64"},
		map[string]string{"flows": "4"},
		map[string]string{"flows": "4", "direction": "reverse", "message": "1000"},
		map[string]string{"flows": "4", "direction": "both", "zerocopy": "true", "nodelay": "true"},
	)
}
