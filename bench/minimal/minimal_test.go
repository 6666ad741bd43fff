package minimal

import (
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestContainers(t *testing.T) {
	testnet.Root(t)
	took, err := Containers(2)
	testnet.Skip(t, err)
	if took <= 0 {
		t.Errorf("it took %v", took)
	}
}
