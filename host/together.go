package host

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"
)

// A Concurrent step can be applied, and removed, at the same time as steps of its kind that stand next to it: a
// container whose runtime is a program. Each of them takes long, and most of that is no work of this process.
type Concurrent interface {
	Step
	// Concurrent reports whether that is so for this one.
	Concurrent() bool
}

// together returns how many of the first steps can be applied, or removed, at the same time: at least one.
func together(steps []*applied) int {
	n := 0
	for n < len(steps) && steps[n].Step.Kind() == steps[0].Step.Kind() {
		if c, is := steps[n].Step.(Concurrent); !is || !c.Concurrent() {
			break
		}
		n++
	}
	return max(n, 1)
}

// atOnce calls f for each step, in their order, and returns the errors in that order. It has as many at work as there
// are CPUs, because more of them would wait for each other. If one fails, it begins no further ones unless all is set;
// the list then ends with the last one that has begun.
func atOnce(steps []*applied, all bool, f func(*applied) error) []error {
	errs := make([]error, len(steps))
	places := make(chan struct{}, max(2, goruntime.NumCPU()))
	var failed atomic.Bool
	var group sync.WaitGroup
	begun := 0
	for i, a := range steps {
		places <- struct{}{}
		if failed.Load() && !all {
			break
		}
		begun++
		group.Go(func() {
			if errs[i] = f(a); errs[i] != nil {
				failed.Store(true)
			}
			<-places
		})
	}
	group.Wait()
	return errs[:begun]
}
