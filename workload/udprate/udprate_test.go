package udprate_test

import (
	"testing"

	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, udprate.Workload{}, map[string]string{}, map[string]string{"payload": "1024"})
}
