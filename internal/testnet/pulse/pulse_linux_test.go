package pulse_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/pulse"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// A CPU that does not run is detected: a thread with a higher priority acts as a late hypervisor. The other CPU is not
// affected.
func TestStopped(t *testing.T) {
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	const lasts, times = 60 * time.Millisecond, 5
	before := pulse.Stopped()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the function
		err := thread.Pin(cpus[0])
		if err == nil {
			err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 2}, 0)
		}
		for range times {
			for began := thread.RunTime(); err == nil && thread.RunTime()-began < int64(lasts); {
			}
			time.Sleep(5 * time.Millisecond)
		}
		done <- err
	}()
	if err := <-done; errors.Is(err, unix.EPERM) {
		testnet.Skip(t, fmt.Errorf("real-time priority: %w", errors.ErrUnsupported))
	} else if err != nil {
		t.Fatal(err)
	}
	after := pulse.Stopped()
	if len(before) != len(cpus) || len(after) != len(cpus) {
		t.Fatalf("beats of %d and %d of %d CPUs", len(before), len(after), len(cpus))
	}
	if got := after[cpus[0]] - before[cpus[0]]; got < times*(lasts-10*time.Millisecond) {
		t.Errorf("CPU %d stopped for %v, want at least about %v", cpus[0], got, times*lasts)
	}
	for _, cpu := range cpus[1:] {
		if got := after[cpu] - before[cpu]; got > times*lasts/2 {
			t.Errorf("CPU %d stopped for %v", cpu, got)
		}
	}
}
