package udprate

import "math"

// The search: RFC 2544, section 26.1, asks for the highest rate without loss, found by trials at one rate after
// another. On machines where the hypervisor or the scheduler sometimes takes a CPU away, a single bad trial proves
// little. The IETF's MLRsearch (draft-ietf-bmwg-mlrsearch, "Load Classification") tolerates a share of bad trials (its
// exceed ratio), starts with the received rate of a flood, and uses short trials to find the neighbourhood and long
// ones for the result. So does this search.
const (
	// width is the largest share by which the lowest rate that was too high may exceed the highest one that was not, at
	// the end.
	width = 0.01
	// firstStride is the distance from the first guess to the next rate; the strides double.
	firstStride = 0.05
	// mostFails is how many steps at a rate have to fail for the rate to count as too high: more than half of three.
	mostFails = 2
)

// search finds the highest rate at which steps succeed, only from their outcomes, without a clock. Rates have any unit.
type search struct {
	rate      float64 // of the next step
	low, high float64 // the highest rate that succeeded (0: none) and the lowest that failed
	stride    float64
	fails     int // in a row, at this rate
}

// begin begins a search below a rate that is too high; guess is the rate that was received then.
func (q *search) begin(tooHigh, guess float64) {
	*q = search{high: tooHigh, rate: guess, stride: firstStride}
	if guess <= 0 || guess >= tooHigh {
		q.rate = tooHigh * (1 - width)
	}
}

// done reports whether low is close enough to high.
func (q *search) done() bool { return q.low > 0 && q.high <= q.low*(1+width) }

// note records the outcome of a step and chooses the rate of the next one.
func (q *search) note(good bool) {
	switch {
	case good:
		q.low = q.rate
	case q.fails+1 < mostFails:
		q.fails++
		return
	default:
		q.high = q.rate
	}
	q.fails = 0
	if q.low == 0 {
		q.rate = q.high * (1 - q.stride)
		q.stride = min(2*q.stride, 0.5)
		return
	}
	q.rate = min(math.Sqrt(q.low*q.high), q.low*(1+q.stride))
	q.stride *= 2
}
