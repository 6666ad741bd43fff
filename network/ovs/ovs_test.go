package ovs_test

import (
	"testing"

	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/ovs"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, ovs.Network{}, nil, map[string]string{"flows": "explicit"})
}
