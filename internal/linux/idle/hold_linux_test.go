package idle

import (
	"errors"
	"os"
	"strconv"
	"strings"
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
	const enough = time.Second // of time in which CPU 0 had nothing to do, by the scheduler's account
	var idle time.Duration
	for end := time.Now().Add(2 * time.Minute); idle < enough && time.Now().Before(end); {
		before := unused(t)
		if slept() > 5*time.Millisecond {
			return
		}
		idle += unused(t) - before
	}
	if idle < enough {
		t.Fatalf("CPU 0 had nothing to do for only %v: other programs keep it busy", idle)
	}
	t.Errorf("CPU 0 did not sleep in %v in which it had nothing to do", idle)
}

// unused returns for how long CPU 0 has had nothing to do since the machine started (proc_stat(5)). It may have slept
// or polled.
func unused(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	const idle, tick = 4, 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go supports
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > idle && fields[0] == "cpu0" {
			ticks, err := strconv.Atoi(fields[idle])
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(ticks) * tick
		}
	}
	t.Fatal("/proc/stat has no line of CPU 0")
	return 0
}
