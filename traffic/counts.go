package traffic

// A Count is the name of a counter that some workloads have and others have not. The workload or engine that counts it
// declares the name as a constant, with its unit. Its loop counts in a field of its own; [Collector.Collect] puts the
// value into [Sample.Counts] when the block is over. So a loop looks nothing up, and a new counter changes no other
// workload.
type Count string

// Counters that engines of this package keep, or several workloads and foreign programs. Values are numbers unless
// they say otherwise.
const (
	CountBacklog   Count = "backlog"   // most messages that were due and not sent yet
	CountFirst     Count = "first"     // ns: latency of the first message of a flow, which is not among the recorded ones
	CountRepeated  Count = "repeated"  // further copies of packets that were received, inside the window
	CountReordered Count = "reordered" // of those received, packets that came after one with a higher number (RFC 4737)
	CountResent    Count = "resent"    // TCP segments sent again
	CountPlanted   Count = "planted"   // ns that a sink has spun on purpose (study only)
)

// Counts are the counters of one endpoint after a trial. One that is 0 is left out.
type Counts map[Count]int64

// Series are values over one trial, by name.
type Series map[Count][]int64

// SeriesDelivered is the bytes of a stream that were delivered from the opening to the end of each slice: Slices+1
// values, the first 0.
const SeriesDelivered Count = "delivered"

// Slices is into how many equal parts a stream's trial is cut to find where its rate is steady.
const Slices = 20

// Count notes the value of a counter. It allocates, so it is not for a loop.
func (s *Sample) Count(name Count, n int64) {
	if n == 0 {
		delete(s.Counts, name)
		return
	}
	if s.Counts == nil {
		s.Counts = Counts{}
	}
	s.Counts[name] = n
}
