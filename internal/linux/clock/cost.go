package clock

import "time"

// ReadTime measures how long [Now] takes, by the fastest of several series: other work makes the others longer.
func ReadTime() time.Duration {
	const series, reads = 20, 100
	var least int64
	for n := range series {
		start := Now()
		for range reads {
			Now()
		}
		if took := Now() - start; n == 0 || took < least {
			least = took
		}
	}
	return time.Duration(least / reads)
}
