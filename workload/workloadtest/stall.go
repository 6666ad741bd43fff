package workloadtest

import (
	"math"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
)

// What stands still in [Stalls], and how long the trials there are: their windows, which begin after a tenth, hold
// one of the stalls that begin at the opening and every 50 ms from there, which is 2 % of each.
const (
	StallEvery  = 50 * time.Millisecond
	StallFor    = time.Millisecond
	StallLength = StallEvery * 10 / 9
)

// Stalls checks that a stall of what answers is seen by requests that are sent when they are due, and by hardly
// one of those that are sent when the one before is answered. Of the former the share from least to most takes
// longer than 0.3 ms.
//
// Of requests that are due evenly, 2 % are due during a stall. They wait for as long as it still lasts, from 1 ms
// down to nothing: some 1.5 % of all wait longer than 0.3 ms, and the 99th percentile is at half a millisecond. A
// closed loop sends nothing while it waits: each stall is one slow round trip, of thousands, and its percentiles
// do not know of it.
//
// Other work on the machine makes requests slower, and none faster. So fewer slow ones than the stalls make are wrong
// in any trial. How many there are is judged by the trial with the fewest, of nine from which the witness saw hardly
// anything taken: on a quiet machine the share of slow requests is the same in all of them to the third digit, but what
// softirqs of others take is not seen by a witness. Going, the same as open with nothing that stands still, is the
// control.
func Stalls(t *testing.T, least, most float64, open, going, closed *Rig) {
	t.Helper()
	const slow = 300 * time.Microsecond
	still := quiet(t, slow, open, func(h latencies) {
		if share := h.above(slow); share < least {
			t.Errorf("on a schedule %.2f %% are above %v: fewer than the stalls make (%.2f %%)", 100*share, slow, 100*least)
		}
	})
	if share, p99 := low(still, slow), lowP99(still); share > most || p99 < slow || p99 > StallFor {
		t.Errorf("on a schedule %.2f %% are above %v, p99 %v; want %.2f to %.2f %%, and a p99 above %v and below %v",
			100*share, slow, p99, 100*least, 100*most, slow, StallFor)
	}
	if share := low(quiet(t, slow, going, func(latencies) {}), slow); share > 0.003 {
		t.Errorf("on a schedule %.2f %% are above %v though nothing stands still", 100*share, slow)
	}
	if p99 := lowP99(quiet(t, slow, closed, func(latencies) {})); p99 > slow {
		t.Errorf("in a closed loop: p99 %v, want less than %v: a stall is one slow round trip of many", p99, slow)
	}
}

// quiet makes trials until from some of them no more was taken than the limit, and returns those. Each trial is
// given to check.
func quiet(t *testing.T, limit time.Duration, r *Rig, check func(latencies)) []latencies {
	t.Helper()
	const want, patience = 9, time.Minute
	var found []latencies
	var last witness.Seen
	for start := time.Now(); time.Since(start) < patience; {
		watch := witness.Begin(t)
		trial, result := r.Trial(t)
		last = watch.Seen(t)
		h, all := trial.Histograms[traffic.Latency], trial.Failure() == "" && len(result.Warnings) == 0
		if all && h != nil {
			check(latencies{h})
		}
		if last.Lost() > limit {
			continue
		}
		if h == nil || trial.Failure() != "" {
			t.Fatalf("no latencies, and the witness saw nothing: %s (%v)", trial.Failure(), last)
		}
		if !all {
			continue
		}
		if found = append(found, latencies{h}); len(found) == want {
			return found
		}
	}
	t.Fatalf("%d trials in %v from which other work took at most %v, want %d: this machine is too busy for the test (%v)",
		len(found), patience, limit, want, last)
	return nil
}

// low is the least share above some time.
func low(of []latencies, above time.Duration) float64 {
	least := math.Inf(1)
	for _, h := range of {
		least = min(least, h.above(above))
	}
	return least
}

// lowP99 is the least of the 99th percentiles.
func lowP99(of []latencies) time.Duration {
	least := time.Hour
	for _, h := range of {
		least = min(least, time.Duration(h.ValueAtQuantile(99)))
	}
	return least
}

// latencies are those of one trial.
type latencies struct{ *hdrhistogram.Histogram }

// above is the share of latencies that are longer than some time.
func (h latencies) above(than time.Duration) float64 {
	over := int64(0)
	for _, bar := range h.Distribution() {
		if bar.From > int64(than) {
			over += bar.Count
		}
	}
	return float64(over) / float64(h.TotalCount())
}
