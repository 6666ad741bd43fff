package workloadtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/traffic"
)

// What stands still in [Stalls], and how long the trials there are: their windows, which begin after a tenth, hold one
// of the stalls that begin at the opening and every 50 ms from there, which is 2 % of each.
const (
	StallEvery  = 50 * time.Millisecond
	StallFor    = time.Millisecond
	StallLength = StallEvery * 10 / 9
)

// Stalls checks that a stall of what answers is seen by requests that are sent when they are due, and by hardly one of
// those that are sent when the one before is answered.
//
// Of requests that are due evenly, 2 % are due during a stall. They wait for as long as it still lasts, from 1 ms down
// to nothing: some 1.5 % of all wait longer than 0.3 ms, and 0.7 % longer than 0.65 ms, so that the 99th percentile is
// at half a millisecond. A closed loop sends nothing while it waits: each stall is one slow round trip, of thousands,
// and its percentiles do not know of it.
//
// Other work on the machine makes requests slower, and none faster. So fewer slow ones than the stalls make are wrong
// in any trial, and one trial of the closed loop without slow ones shows what stalls do to it. How many there are on a
// schedule is told between two trials of going, the same with nothing that stands still, which show that nothing else
// happened: one of the first few has to be as it should. On a machine that is never quiet for two tenths of a second
// there is none.
func Stalls(t *testing.T, open, going, closed *Rig) {
	t.Helper()
	const (
		slow, slower = 300 * time.Microsecond, 650 * time.Microsecond
		patience     = 10 * time.Second
		few          = 10 // what happens may happen beside the one trial of three
	)
	quiet, right, unseen := 0, false, false
	for start := time.Now(); time.Since(start) < patience && !(right && unseen); {
		if loop := latencies(t, closed); !unseen && loop.all && loop.above(slow) < 0.005 && loop.p99() < slow {
			unseen = true
			t.Logf("in a closed loop: %.3f %% of %d above %v, p99 %v", 100*loop.above(slow), loop.h.TotalCount(), slow,
				loop.p99())
		}
		quietly := func() bool {
			h := latencies(t, going)
			return h.all && h.above(slow) < 0.003 && h.p99() < slow
		}
		before, still := right || quietly(), latencies(t, open)
		if share := still.above(slow); still.all && share < 0.012 {
			t.Errorf("%.2f %% of the latencies on a schedule are above %v beside what stands still, want 1.5", 100*share, slow)
		}
		if right || !before || !quietly() {
			continue
		}
		quiet++
		text := fmt.Sprintf("%.2f %% above %v, %.2f %% above %v, p99 %v", 100*still.above(slow), slow,
			100*still.above(slower), slower, still.p99())
		right = still.above(slow) < 0.018 && still.above(slower) > 0.004 && still.above(slower) < 0.011 &&
			still.p99() > slow && still.p99() < 800*time.Microsecond
		t.Logf("on a schedule: %s", text)
		if !right && quiet == few {
			t.Fatalf("in none of %d quiet trials are the latencies as they should be: %s", quiet, text)
		}
	}
	if !right || !unseen {
		t.Logf("the machine was quiet in %d rounds in %v, and not long enough to tell (on a schedule: %t, in a closed "+
			"loop: %t)", quiet, patience, right, unseen)
	}
}

// seen is what one trial has of latencies.
type seen struct {
	h   *hdrhistogram.Histogram
	all bool // every request was sent and answered
}

func latencies(t *testing.T, r *Rig) seen {
	t.Helper()
	for range soundLimit {
		trial, result := r.Trial(t)
		if h := trial.Histograms[traffic.Latency]; h != nil && trial.Failure() == "" {
			return seen{h, len(result.Warnings) == 0}
		}
		t.Logf("no latencies yet: %s", trial.Failure())
	}
	t.Fatalf("none of %d trials has latencies", soundLimit)
	return seen{}
}

// above is the share of latencies that are longer than some time.
func (s seen) above(than time.Duration) float64 {
	over := int64(0)
	for _, bar := range s.h.Distribution() {
		if bar.From > int64(than) {
			over += bar.Count
		}
	}
	return float64(over) / float64(s.h.TotalCount())
}

func (s seen) p99() time.Duration { return time.Duration(s.h.ValueAtQuantile(99)) }
