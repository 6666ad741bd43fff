package remote

import "time"

// drift is how much the difference of two clocks changes at most, in ns for each second. The kernel slews
// CLOCK_MONOTONIC by at most 500 ppm (MAXFREQ, include/linux/timex.h), and the clocks may be slewed in opposite
// directions.
const drift = 1_000_000

// drifted returns by how much two clocks may drift apart in a time, in ns. Part of a second counts.
func drifted(ns int64) int64 {
	return ns/int64(time.Second)*drift + ns%int64(time.Second)*drift/int64(time.Second)
}

// An offset is how far a worker's clock is ahead of the controller's, in ns. It is the best one of all exchanges: RFC
// 5905, section 10, likewise takes the exchange with the shortest round trip, and lets its error grow with age.
type offset struct {
	known bool
	ns    int64
	err   int64 // ns, when it was measured
	at    int64 // ns: when, in the controller's clock
}

// error returns how wrong the offset may be at a time.
func (o offset) error(at int64) int64 { return o.err + drifted(max(0, at-o.at)) }

// exchange learns from a call that was sent and whose answer was got at times of the controller's clock. The round trip
// is what the worker did not use itself. Its halves may differ by all of it, so the error is at most half of it (RFC
// 5905, section 8; Mills, "Internet time synchronization", 1991). It returns false if the clock is not the one that was
// measured before: it stood still, or was set.
func (o *offset) exchange(sent int64, worker times, got int64) bool {
	trip := got - sent - (worker.Answered - worker.Received)
	now := offset{
		known: true,
		ns:    (worker.Received - sent + worker.Answered - got) / 2,
		err:   max(0, trip)/2 + drifted(got-sent),
		at:    got,
	}
	apart := now.ns - o.ns
	same := !o.known || max(apart, -apart) <= now.err+o.error(got)
	if !o.known || !same || now.err <= o.error(got) {
		*o = now
	}
	return same
}
