package traffic

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// StandStill keeps the calling thread busy for as long as a stall lasts: one begins every so often from the opening on,
// at which there is the first. A sink calls it before it answers (study only).
//
//go:nosplit
func StandStill(open int64, every, length time.Duration) {
	for (clock.Now()-open)%int64(every) < int64(length) {
	}
}

// A Delay is for how long a sink spins before each answer (study only).
type Delay struct{ length, clock int64 } // ns; clock: of one clock read

// NewDelay returns a delay of that length. It measures how long reading the clock takes.
func NewDelay(length time.Duration) Delay {
	const reads = 1000
	start := clock.Now()
	for range reads {
		clock.Now()
	}
	return Delay{int64(length), (clock.Now() - start) / reads}
}

// Spin spins, where there is a delay, and returns for how many nanoseconds it really did: the clock reads at both ends
// count for one.
//
//go:nosplit
func (d *Delay) Spin() int64 {
	if d.length == 0 {
		return 0
	}
	start := clock.Now()
	for {
		if now := clock.Now(); now-start >= d.length {
			return now - start + d.clock
		}
	}
}
