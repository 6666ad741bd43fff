package ipvlan_test

import (
	"testing"

	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/networktest"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, ipvlan.Network{}, nil, map[string]string{"mode": "l3"}, map[string]string{"mode": "l3s"})
}
