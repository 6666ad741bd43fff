package clock

import "time"

// ReadTime measures how long [Now] takes.
func ReadTime() time.Duration {
	const reads = 1000
	start := Now()
	for range reads {
		Now()
	}
	return time.Duration((Now() - start) / reads)
}
