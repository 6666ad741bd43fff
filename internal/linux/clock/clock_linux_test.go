package clock

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestNowIsMonotonicClock(t *testing.T) {
	var ts unix.Timespec
	before := Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	after := Now()
	if got := ts.Nano(); got < before || got > after {
		t.Fatalf("CLOCK_MONOTONIC %d is not between %d and %d", got, before, after)
	}
	if n := testing.AllocsPerRun(100, func() { Now() }); n != 0 {
		t.Fatalf("%v allocations in a clock read, want none", n)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
