package ipsec_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
)

// Each of three hosts has a plan for the other two.
func TestPlan(t *testing.T) {
	for _, given := range []map[string]string{
		{"impl": "strongswan"},
		{"impl": "kernel"},
	} {
		between := carriertest.Choose(t, encryption.Kind{ipsec.Encryption{}}, given)
		golden.Compare(t, "plan-"+given["impl"], carriertest.Plan(t, bridge.Network{}, between).String())
	}
}
