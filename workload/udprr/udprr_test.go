package udprr_test

import (
	"testing"

	"github.com/nettoll/nettoll/workload/udprr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, udprr.Workload{}, map[string]string{}, map[string]string{"mode": "spin", "payload": "1024"})
}
