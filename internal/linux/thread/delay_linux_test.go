package thread_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/thread"
)

// Delay equals the kernel's value, grows if two threads want one CPU, and allocates nothing.
func TestDelay(t *testing.T) {
	runtime.LockOSThread()
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil || len(strings.Fields(string(text))) != 3 {
		t.Fatalf("schedstat %q (%v), want three numbers", text, err)
	}
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	spin := func() {
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with it
		if err := thread.Pin(cpus[0]); err != nil {
			t.Error(err)
		}
		spin()
	}()
	one := make(chan int64, 1)
	go func() {
		runtime.LockOSThread()
		if err := thread.Pin(cpus[0]); err != nil {
			t.Error(err)
		}
		before := thread.Delay()
		spin()
		one <- thread.Delay() - before
	}()
	if got := time.Duration(<-one); got < 5*time.Millisecond {
		t.Errorf("a thread of two on one CPU waited for %v of 50 ms", got)
	}
	<-done
	if n := testing.AllocsPerRun(100, func() { thread.Delay() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
