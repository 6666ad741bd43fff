package probetest

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestFake(t *testing.T) { Conformance(t, Fake{}, []int{0}, func(*testing.T) {}) }
