package underload

import "github.com/nettoll/nettoll/traffic"

// Counters of under-load, in addition to those of package traffic.
const (
	// messages a second that the path can carry, as far as the source has measured
	countCapacity traffic.Count = "capacity"
	countDropped  traffic.Count = "dropped" // of the load: the kernel dropped them at the sink's full receive buffer
	countBlocked  traffic.Count = "blocked" // how often a datagram could not be sent
	countAwaited  traffic.Count = "awaited" // received datagrams before which there was nothing to receive
)

// counts are the counters of one trial, of either side.
type counts struct {
	repeated, reordered, backlog, capacity, dropped, blocked, awaited int64
}

func (c *counts) put(s *traffic.Sample) {
	s.Count(traffic.CountRepeated, c.repeated)
	s.Count(traffic.CountReordered, c.reordered)
	s.Count(traffic.CountBacklog, c.backlog)
	s.Count(countCapacity, c.capacity)
	s.Count(countDropped, c.dropped)
	s.Count(countBlocked, c.blocked)
	s.Count(countAwaited, c.awaited)
}

// Collect implements [traffic.Collector].
func (s *sink) Collect() { s.counts.put(&s.sample) }
