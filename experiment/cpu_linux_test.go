package experiment_test

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the CPU time that this process has used: unlike the clock, it does not run while others have the CPU.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
