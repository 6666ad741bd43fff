package tinc_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/tinc"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
)

// Each of three hosts has a plan for the other two.
func TestPlan(t *testing.T) {
	between := carriertest.Choose(t, encryption.Kind{tinc.Encryption{}}, nil)
	golden.Compare(t, "plan", carriertest.Plan(t, bridge.Network{}, between).String())
}
