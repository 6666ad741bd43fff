package udprate

import "math"

// How a search goes: RFC 2544, section 26.1, asks for the highest rate at which nothing is lost, found by trials at one
// rate after another. On machines where the hypervisor or the scheduler takes a CPU away now and then a single bad
// trial says little: the IETF's MLRsearch (draft-ietf-bmwg-mlrsearch, "Load Classification") lets a goal tolerate a
// share of them (its exceed ratio), begins with what is received of a flood, uses short trials to find the
// neighbourhood and long ones for what counts. So does this.
const (
	// width is by what share the lowest rate that was too high is above the highest that was not, at the end.
	width = 0.01
	// firstStride is how far from the first guess the next one is; the strides double.
	firstStride = 0.05
	// mostFails is how many steps at a rate have to fail before it counts as too high: more than half of three.
	mostFails = 2
)

// search finds the highest rate at which steps succeed: a function of what was seen, without a clock. Rates have any
// unit.
type search struct {
	rate      float64 // of the next step
	low, high float64 // the highest that succeeded (0: none) and the lowest that failed
	stride    float64
	fails     int // in a row, at this rate
}

// begin begins a search below a rate that is too high; guess is what was received of it.
func (q *search) begin(tooHigh, guess float64) {
	*q = search{high: tooHigh, rate: guess, stride: firstStride}
	if guess <= 0 || guess >= tooHigh {
		q.rate = tooHigh * (1 - width)
	}
}

// done says whether low is close enough to high.
func (q *search) done() bool { return q.low > 0 && q.high <= q.low*(1+width) }

// note takes the outcome of a step in and chooses the rate of the next one.
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
