package clock

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
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

// Another process of this machine reads a clock of the same name.
func TestName(t *testing.T) {
	const asked = "NETTOLL_CLOCK_NAME"
	if os.Getenv(asked) != "" {
		fmt.Printf("name=%s\n", Name())
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestName$")
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "name=" + Name() + "\n"; len(Name()) < 36 || !strings.HasPrefix(string(out), want) { // a UUID, and more
		t.Errorf("%q, want %q first", out, want)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
