package sock

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// RealtimeOffset returns what is to be added to a time of clock.Now for the same time of CLOCK_REALTIME, which
// timestamps are in. It holds until somebody sets the clock: what slews one slews both.
func RealtimeOffset() int64 {
	const tries = 5 // of which the one that took the shortest time is the best
	offset, shortest := int64(0), int64(1<<62)
	for range tries {
		before := clock.Now()
		now := time.Now().UnixNano()
		if took := clock.Now() - before; took < shortest {
			offset, shortest = now-before-took/2, took
		}
	}
	return offset
}
