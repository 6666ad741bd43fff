package tcpstream_test

import (
	"testing"

	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, tcpstream.Workload{}, map[string]string{}, map[string]string{"message": "1000"})
}
