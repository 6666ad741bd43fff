package filter

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }
