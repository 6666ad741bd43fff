package traffic

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// StandStill keeps the calling thread busy for the rest of a stall. Stalls begin at regular intervals from the opening
// on, the first one at the opening. A sink calls it before it answers (study only).
//
//go:nosplit
func StandStill(open int64, every, length time.Duration) {
	for (clock.Now()-open)%int64(every) < int64(length) {
	}
}

// A Delay makes a sink spin for a time before each answer (study only).
type Delay struct{ length, clock int64 } // ns; clock: of one clock read

// NewDelay returns a delay of that length.
func NewDelay(length time.Duration) Delay { return Delay{int64(length), int64(clock.ReadTime())} }

// Spin spins, if there is a delay, and returns the actual duration in nanoseconds: the clock reads at both ends count
// as one. If the thread was interrupted, that is not counted: medians, with which delays are compared, do not see it.
//
//go:nosplit
func (d *Delay) Spin() int64 {
	if d.length == 0 {
		return 0
	}
	start := clock.Now()
	for {
		if now := clock.Now(); now-start >= d.length {
			return min(now-start, d.length+2*d.clock) + d.clock
		}
	}
}
