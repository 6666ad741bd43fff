package tcpstream_test

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// The congestion control is cubic or reno if possible, as in experiments: bbr's pacing may make a drain longer than a
// trial allows.
func TestConformance(t *testing.T) {
	var variants []map[string]string
	for _, given := range []map[string]string{
		{},
		{"direction": "reverse", "zerocopy": "true"},
		{"direction": "both", "message": "64"},
		{"flows": "4"},
		{"flows": "4", "direction": "reverse", "message": "1000"},
		{"flows": "4", "direction": "both", "zerocopy": "true", "nodelay": "true"},
	} {
		given["congestion"] = "reno"
		variants = append(variants, given)
	}
	workloadtest.Conformance(t, tcpstream.Workload{}, variants...)
}

func TestHandshakes(t *testing.T) {
	workloadtest.Handshakes(t, tcpstream.Workload{}, map[string]string{"flows": "4", "congestion": "reno"})
}
