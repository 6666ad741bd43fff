package traffic

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// StandStill keeps the calling thread busy for as long as a stall lasts: one begins every so often from the opening on, at which there is the
// first. A sink calls it before it answers (study only).
//
//go:nosplit
func StandStill(open int64, every, length time.Duration) {
	for (clock.Now()-open)%int64(every) < int64(length) {
	}
}
