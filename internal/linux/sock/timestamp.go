package sock

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// RealtimeOffset returns the difference between CLOCK_REALTIME, which timestamps use, and clock.Now. It is valid until
// somebody sets the clock; slewing affects both clocks.
func RealtimeOffset() int64 {
	const tries = 5 // the fastest try is the best
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
