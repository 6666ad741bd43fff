package traffic

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/thread"
)

// spinner is an endpoint that keeps its CPU busy until the close.
type spinner struct {
	Endpoint
	sample Sample
}

func (s *spinner) Sample() *Sample { return &s.sample }

func (s *spinner) Run(_ uint64, w Window) {
	for clock.Now() < w.Close {
	}
}

// TestWaited drives two endpoints on one CPU: each waits for the other, and never runs while it waits.
func TestWaited(t *testing.T) {
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	const length = 100 * time.Millisecond
	samples := make(chan Sample, 2)
	var ready sync.WaitGroup
	ready.Add(cap(samples))
	for range cap(samples) {
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with it
			if err := thread.Pin(cpus[0]); err != nil {
				t.Error(err)
			}
			ready.Done()
			ready.Wait()
			var s spinner
			now := clock.Now()
			Drive(&s, 1, Window{Open: now, Start: now, Close: now + int64(length)})
			samples <- s.sample
		}()
	}
	var waited int64
	for range cap(samples) {
		s := <-samples
		if waited += s.Waited; s.Waited+s.CPU > s.Span+int64(time.Millisecond) {
			t.Errorf("waited for %d and ran for %d of %d ns", s.Waited, s.CPU, s.Span)
		}
	}
	if waited < int64(length)/4 {
		t.Errorf("two threads on one CPU waited for %v in trials of %v", time.Duration(waited), length)
	}
}
