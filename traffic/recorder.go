package traffic

import (
	"math/bits"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Geometry of every latency histogram of nettoll, in nanoseconds: three significant digits up to the longest distinct
// latency. A longer one counts as that in the histogram, and with its own value in Recorder.Max.
const (
	Digits  = 3
	Longest = 1<<30 - 1 // ns: 1.07 s

	// Values that follow from them in the layout of HdrHistogram (HdrHistogram.java, "subBucketCount": the power of two
	// that holds 2 × 10^3 values).
	subBucketBits = 11
	halfCount     = 1 << (subBucketBits - 1)
	buckets       = 30 - subBucketBits + 1
	slots         = (buckets + 1) * halfCount
)

// Recorder counts latencies in the slots of an HDR histogram. It exists in addition to the library because a hot loop
// needs a Record that is inlined, cannot fail and has no scheduling point. Everything else is done by the library (see
// [Recorder.Histogram]).
type Recorder struct {
	Max    int64 // ns, the largest recorded value, not limited by Longest
	Sum    int64 // ns
	Count  int64
	counts [slots]uint32
	lo, hi uint32 // the slots that may hold something: [lo, hi)
}

// A Quantity is a kind of duration that a recorder holds.
type Quantity int

// The quantities of a trial. All are in ns.
const (
	Latency   Quantity = iota // from when a message was due, or sent if nothing is due, to its answer
	Service                   // from when it was sent to its answer
	Departure                 // from when it was due until it was passed to the kernel
	Connect                   // from the start of a connection until it was established
	SenderStack
	Wire
	ReceiverStack
	OneWay     // from when a message was due until the sink's application had it; both ends share a clock
	Quantities // how many there are
)

// Name returns the prefix of the quantity's metrics: "latency".
func (q Quantity) Name() string {
	return [Quantities]string{
		"latency", "service_time", "departure_error", "connect_latency", "sender_stack", "wire", "receiver_stack",
		"oneway_latency",
	}[q]
}

// Recorders are the recorders of an endpoint; nil for a quantity that it does not measure.
type Recorders [Quantities]*Recorder

// Reset empties the recorders that exist.
func (r *Recorders) Reset() {
	for _, one := range r {
		if one != nil {
			one.Reset()
		}
	}
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	r := new(Recorder)
	r.lo = slots
	return r
}

// Record counts one latency in nanoseconds; a negative one counts as 0.
//
//go:nosplit
func (r *Recorder) Record(ns int64) {
	if ns > r.Max {
		r.Max = ns
	}
	r.Sum += ns
	r.Count++
	i := slot(ns)
	r.counts[i]++
	if i < r.lo {
		r.lo = i
	}
	if i >= r.hi {
		r.hi = i + 1
	}
}

// slot returns the index of a value in HdrHistogram's flat array of counts.
func slot(ns int64) uint32 {
	if ns < 0 {
		ns = 0
	}
	if ns > Longest {
		ns = Longest
	}
	bucket := 64 - subBucketBits - bits.LeadingZeros64(uint64(ns)|(1<<subBucketBits-1))
	return uint32(bucket*halfCount) + uint32(ns>>uint(bucket))
}

// Reset empties the recorder.
func (r *Recorder) Reset() {
	if r.lo < r.hi {
		clear(r.counts[r.lo:r.hi])
	}
	r.Max, r.Sum, r.Count, r.lo, r.hi = 0, 0, 0, slots, 0
}

// AddTo adds the recorded values to an HDR histogram made by [NewHistogram].
func (r *Recorder) AddTo(h *hdrhistogram.Histogram) error {
	for i := r.lo; i < r.hi; i++ {
		if n := r.counts[i]; n > 0 {
			if err := h.RecordValues(slotValue(i), int64(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// slotValue returns the smallest value in a slot.
func slotValue(i uint32) int64 {
	if i < 2*halfCount {
		return int64(i)
	}
	bucket := i/halfCount - 1
	return int64(i-bucket*halfCount) << bucket
}
