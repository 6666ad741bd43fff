package wireguard_test

import (
	"testing"

	"github.com/nettoll/nettoll/encryption/wireguard"
	"github.com/nettoll/nettoll/host/steptest"
)

// The test binary is the embedded device of its own labs.
func TestMain(m *testing.M) { steptest.Main(m, wireguard.Encryption{}.Daemons()) }
