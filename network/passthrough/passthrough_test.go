package passthrough_test

import (
	"testing"

	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/passthrough"
)

func TestConformance(t *testing.T) { networktest.Conformance(t, passthrough.Network{}) }
