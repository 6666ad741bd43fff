package idle

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
)

// CPUs that are held awake do not sleep, according to the kernel's own counters, and sleep again when they are
// released.
func TestHold(t *testing.T) {
	slept := func() time.Duration {
		t.Helper()
		before, err := Asleep(os.DirFS("/"), []int{0})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		after, err := Asleep(os.DirFS("/"), []int{0})
		if err != nil {
			t.Fatal(err)
		}
		return after - before
	}
	f, err := Hold()
	if errors.Is(err, errors.ErrUnsupported) {
		testnet.Skip(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		return // idle=poll: they never sleep
	}
	if got := slept(); got > 20*time.Millisecond {
		t.Errorf("CPU 0 slept %v of 200 ms while it was held awake", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Settle([]int{0}); err != nil {
		t.Fatal(err)
	}
	for range 20 { // other work may keep it busy
		if slept() > 5*time.Millisecond {
			return
		}
	}
	t.Error("CPU 0 did not sleep again")
}
