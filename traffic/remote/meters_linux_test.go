package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/traffic"
)

// Machines are read before the opening of each trial and after its end. One that fails is left out for the rest of the
// block, and no trial waits or fails for it. In the next block it is read again.
func TestMachines(t *testing.T) {
	const warm, length = 200 * time.Millisecond, 250 * time.Millisecond // a busy machine wakes threads late
	turns, peers := meet(t, 1, same(nil), same(nil))
	set(t, turns, 1, warm, length)
	for i, p := range peers {
		go drive(p, i, nil, nil)
	}
	var reads, fails atomic.Int64
	turns.Meter("works", func(context.Context) (traffic.Reading, error) {
		return traffic.Reading{Clock: "a", At: clock.Now(), Softirqs: reads.Add(1), CPU: map[string]float64{}}, nil
	})
	works := errors.New("not yet")
	turns.Meter("fails", func(context.Context) (traffic.Reading, error) {
		fails.Add(1)
		return traffic.Reading{Clock: "b", CPU: map[string]float64{}}, works
	})
	const trials = 3
	timings, err := turns.Run(t.Context(), make([]int, trials), one)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range timings {
		if !x.Done || len(x.Metered) != 1 || x.Metered[0].Machine != "works" || x.Metered[0].Softirqs != 1 ||
			time.Duration(x.Metered[0].At) < length {
			t.Errorf("trial %d: %+v, want one machine that was read before its %v and after them", i, x, length)
		}
	}
	if reads.Load() != 2*trials || fails.Load() != 1 {
		t.Errorf("%d readings, and %d of the machine that fails; want %d and 1", reads.Load(), fails.Load(), 2*trials)
	}
	works = nil
	if timings, err = turns.Run(t.Context(), []int{0}, one); err != nil || len(timings[0].Metered) != 2 {
		t.Errorf("in the next block: %+v, %v, want both machines", timings, err)
	}
	turns.At(0, "works") // so the other one is not read
	if timings, err = turns.Run(t.Context(), []int{0}, one); err != nil || len(timings[0].Metered) != 1 ||
		timings[0].Metered[0].Machine != "works" {
		t.Errorf("of a worker on one of them: %+v, %v", timings, err)
	}
	turns.At(0, "")
	turns.Meter("fails", func(ctx context.Context) (traffic.Reading, error) { // it hangs now
		<-ctx.Done()
		return traffic.Reading{}, ctx.Err()
	})
	began := time.Now()
	timings, err = turns.Run(t.Context(), make([]int, trials), one)
	if took := time.Since(began); err != nil || !timings[trials-1].Done || took > 2*meterLimit+trials*length {
		t.Errorf("beside one that hangs %d trials took %v: %+v, %v", trials, took, timings, err)
	}
}
