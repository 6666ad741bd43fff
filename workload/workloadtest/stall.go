package workloadtest

import (
	"cmp"
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

// Late says how many requests on a schedule a stall delays, as shares of all.
type Late struct {
	Least, Most         float64       // by more than 300 µs
	LeastMore, MostMore float64       // by more than 650 µs
	P99                 time.Duration // at most; at least 300 µs
}

// Even is what a stall does to requests that are due evenly and answered at once when it is over. 2 % are due during a
// stall. They wait for as long as it still lasts, from 1 ms down to nothing: some 1.5 % of all wait longer than 0.3 ms,
// and 0.7 % longer than 0.65 ms, so that the 99th percentile is at half a millisecond.
func Even() Late {
	return Late{Least: 0.012, Most: 0.018, LeastMore: 0.004, MostMore: 0.011, P99: 800 * time.Microsecond}
}

// Stalls checks that a stall of what answers is seen by requests that are sent when they are due, and by hardly one of
// those that are sent when the one before is answered: a closed loop sends nothing while it waits. Each stall is one
// slow round trip, of thousands, and its percentiles do not know of it.
//
// Other work on the machine makes requests slower, and none faster. So fewer slow ones than the stalls make are wrong
// in any trial. How many there are is judged by the trial with the fewest of nine from which the witness saw hardly
// anything taken, since it does not see what softirqs of others take. Going, the same as open with nothing that stands
// still, is the control: while it has slow ones, too, something else makes them, and nothing is judged. If it always
// has, the test fails.
func Stalls(t *testing.T, want Late, open, going, closed *Rig) {
	t.Helper()
	const slow, slower = 300 * time.Microsecond, 650 * time.Microsecond
	const rounds, few = 5, 0.003
	for round := 1; ; round++ {
		some := low(quiet(t, slow, going, nil), share(slow))
		if some < few {
			break
		}
		if round == rounds {
			t.Fatalf("on a schedule %.2f %% are above %v though nothing stands still", 100*some, slow)
		}
		t.Logf("on a schedule %.2f %% are above %v though nothing stands still: again", 100*some, slow)
	}
	still := quiet(t, slow, open, func(h latencies) {
		if share := h.above(slow); share < want.Least {
			t.Errorf("on a schedule %.2f %% are above %v: fewer than the stalls make, want %+v", 100*share, slow, want)
		}
	})
	some, more, p99 := low(still, share(slow)), low(still, share(slower)), low(still, latencies.p99)
	if some > want.Most || more < want.LeastMore || more > want.MostMore || p99 < slow || p99 > want.P99 {
		t.Errorf("on a schedule %.2f %% are above %v, %.2f %% above %v, p99 %v, want %+v", 100*some, slow, 100*more,
			slower, p99, want)
	}
	loop := quiet(t, slow, closed, nil)
	each := low(loop, func(h latencies) float64 {
		return h.above(slow) * float64(h.TotalCount()) * float64(StallEvery) / float64(StallLength)
	})
	if some, p99 := low(loop, share(slow)), low(loop, latencies.p99); some >= 0.005 && each >= 2 || p99 >= slow {
		t.Errorf("in a closed loop %.2f %% are above %v, %.1f for each stall, p99 %v, want hardly one", 100*some, slow,
			each, p99)
	}
}

// quiet makes trials until from some of them no more was taken than the limit, and returns those. Each trial is
// given to check, if that is not nil.
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
		if all && h != nil && check != nil {
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

// low is the least of something of trials, of which there is at least one.
func low[T cmp.Ordered](of []latencies, what func(latencies) T) T {
	least := what(of[0])
	for _, h := range of[1:] {
		least = min(least, what(h))
	}
	return least
}

// latencies are those of one trial.
type latencies struct{ *hdrhistogram.Histogram }

func (h latencies) p99() time.Duration { return time.Duration(h.ValueAtQuantile(99)) }

// share returns what [latencies.above] is.
func share(than time.Duration) func(latencies) float64 {
	return func(h latencies) float64 { return h.above(than) }
}

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
