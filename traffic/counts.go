package traffic

// A Count is the name of a counter that only some workloads have. The workload or engine that counts it declares the
// name as a constant, with its unit. Its loop uses a field of its own; [Collector.Collect] copies the value to
// [Sample.Counts] after the block. So a loop looks nothing up, and a new counter changes no other workload.
type Count string

// Counters of the engines in this package, of several workloads, or of external programs. Values are numbers unless a
// unit is given.
const (
	CountBacklog   Count = "backlog"   // largest number of messages that were due and not sent yet
	CountFirst     Count = "first"     // ns: latency of the first message of a flow, which is not recorded with the others
	CountRepeated  Count = "repeated"  // further copies of received packets, inside the window
	CountReordered Count = "reordered" // received packets that arrived after one with a higher number (RFC 4737)
	CountResent    Count = "resent"    // retransmitted TCP segments
	CountPlanted   Count = "planted"   // ns that a sink has spun deliberately (study only)
)

// Counts are the counters of one endpoint after a trial. A counter of 0 is left out.
type Counts map[Count]int64

// Series are values over one trial, by name.
type Series map[Count][]int64

// SeriesDelivered is the number of bytes of a stream that were delivered from the opening to the end of each slice:
// Slices+1 values, the first 0.
const SeriesDelivered Count = "delivered"

// Slices is the number of equal parts of a stream's trial, used to find where its rate is steady.
const Slices = 20

// Count sets the value of a counter. It allocates, so it is not for a loop.
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
