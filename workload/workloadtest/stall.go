package workloadtest

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
)

// The stall in [Stalls], and the length of its trials. Their windows, which begin after a tenth, contain one of the
// stalls that begin at the opening and every 50 ms from then on, which is 2 % of each.
const (
	StallEvery  = 50 * time.Millisecond
	StallFor    = time.Millisecond
	StallLength = StallEvery * 10 / 9
)

// StallRate is a rate of requests on a schedule that are answered one by one over a connection. Those of a stall are
// due 125 µs apart. In 18 trials of kv and tcp-rr, four of 400 waited longer than 650 µs and the fifth for 529 to 579;
// six or seven waited longer than 300 µs, and each of these numbers is within [Even]. At 5k/s the third of five waited
// for 623 to 669 µs in 16 of 18, on either side of the limit.
const StallRate = "8k/s"

// Late says how many requests on a schedule a stall delays, as shares of all requests.
type Late struct {
	Least, Most         float64       // by more than 300 µs
	LeastMore, MostMore float64       // by more than 650 µs
	P99                 time.Duration // at most; at least 300 µs, because Least is more than 1 %
}

// Even returns the effect of a stall on requests that are due evenly and answered at once when it is over. 2 % are due
// during a stall. They wait for the rest of it, from 1 ms down to nothing: about 1.5 % of all wait longer than 0.3 ms,
// and 0.7 % longer than 0.65 ms, so that the 99th percentile is at half a millisecond.
func Even() Late {
	return Late{Least: 0.012, Most: 0.018, LeastMore: 0.004, MostMore: 0.011, P99: 800 * time.Microsecond}
}

// Stalls checks that requests on a schedule show a stall of the answering side, and that hardly any request of a closed
// loop does: a closed loop sends nothing while it waits. Each stall is one slow round trip out of thousands, and does
// not change its percentiles. A workload without a closed loop has nil instead of closed.
//
// Other work on the machine makes requests slower, never faster. So having fewer slow requests than the stalls cause is
// wrong in any trial. Requests without a latency, which were lost or not sent by the close, may have been slow. The
// upper limit applies to the trial with the fewest of nine from which the witness saw hardly any time taken, because
// the witness does not see softirqs of others. Going, the same as open without stalls, is the control: as long as it
// also has slow requests, something else causes them, and nothing is judged. If it always has, the test fails.
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
		if share := h.most(slow); share < want.Least {
			t.Errorf("on a schedule %.2f %% are above %v: fewer than the stalls make, want %+v", 100*share, slow, want)
		}
	})
	some, more, p99 := low(still, share(slow)), low(still, share(slower)), low(still, latencies.p99)
	least := low(still, func(h latencies) float64 { return h.most(slower) })
	if some > want.Most || least < want.LeastMore || more > want.MostMore || p99 > want.P99 {
		t.Errorf("on a schedule %.2f %% are above %v, %.2f to %.2f %% above %v, p99 %v, want %+v", 100*some, slow, 100*more,
			100*least, slower, p99, want)
	}
	if closed == nil {
		return
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

// quiet returns nine trials that were disturbed by no more than the limit. If check is not nil, it is called for each
// trial with latencies, disturbed or not.
func quiet(t *testing.T, limit time.Duration, r *Rig, check func(latencies)) []latencies {
	t.Helper()
	type outcome struct {
		latencies
		failure string
	}
	var found []latencies
	for _, o := range witness.Several(t, witness.Limit{Lost: limit}, 9, func() outcome {
		trial, result := r.Trial(t)
		h := latencies{Histogram: trial.Histograms[traffic.Latency]}
		if trial.Failure() != "" || h.Histogram == nil {
			return outcome{h, fmt.Sprintf("no latencies: %s %v", trial.Failure(), result.Warnings)}
		}
		for _, s := range trial.Sources {
			h.missing += s.Unsent + s.Sent - s.Received
		}
		if check != nil {
			check(h)
		}
		return outcome{h, ""}
	}) {
		if o.failure != "" {
			t.Fatalf("other work took at most %v from a trial: %s", limit, o.failure)
		}
		found = append(found, o.latencies)
	}
	return found
}

// low returns the smallest value of something over trials, of which there is at least one.
func low[T cmp.Ordered](of []latencies, what func(latencies) T) T {
	least := what(of[0])
	for _, h := range of[1:] {
		least = min(least, what(h))
	}
	return least
}

// latencies are the latencies of one trial.
type latencies struct {
	*hdrhistogram.Histogram
	missing int64 // requests that were due and have none
}

func (h latencies) p99() time.Duration { return time.Duration(h.ValueAtQuantile(99)) }

// share returns a function that returns [latencies.above].
func share(than time.Duration) func(latencies) float64 {
	return func(h latencies) float64 { return h.above(than) }
}

// above returns the share of latencies that are longer than a time.
func (h latencies) above(than time.Duration) float64 {
	return float64(h.over(than)) / float64(h.TotalCount())
}

// most is like above, with each missing latency as a longer one.
func (h latencies) most(than time.Duration) float64 {
	return float64(h.over(than)+h.missing) / float64(h.TotalCount()+h.missing)
}

func (h latencies) over(than time.Duration) (n int64) {
	for _, bar := range h.Distribution() {
		if bar.From > int64(than) {
			n += bar.Count
		}
	}
	return n
}
