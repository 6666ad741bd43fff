package turntest

import (
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestFake(t *testing.T) {
	Conformance(t, 10*time.Millisecond, func(*testing.T, traffic.Layout) (traffic.Turns, Ends) {
		f := &Fake{Gate: 200 * time.Millisecond, Stall: 200 * time.Millisecond}
		return f, Same(f)
	})
}
