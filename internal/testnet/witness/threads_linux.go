package witness

import (
	"runtime"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/thread"
)

// A Thread calls a function on a thread of its own and returns a channel that is closed at the end of the function.
type Thread func(do func()) (done <-chan struct{})

// Threads starts threads, each with one CPU as in a run, so that [Seen.Delay] is what other work took from them.
// Threads that may use every CPU are not enough: what one of them waited is not told apart from what another one ran.
// They live until the test ends, because the kernel does not report how long an ended thread waited.
func Threads(t testing.TB, n int) []Thread {
	t.Helper()
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	list := make([]Thread, n)
	for i := range list {
		work, ready := make(chan func()), make(chan error)
		t.Cleanup(func() { close(work) })
		cpu := cpus[i*len(cpus)/n]
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			ready <- thread.Pin(cpu)
			for do := range work {
				do()
			}
		}()
		if err := <-ready; err != nil {
			t.Fatal(err)
		}
		list[i] = func(do func()) <-chan struct{} {
			done := make(chan struct{})
			work <- func() {
				defer close(done)
				do()
			}
			return done
		}
	}
	return list
}
