package udprate

import "github.com/nettoll/nettoll/traffic"

// Counters of udp-rate, in addition to those of package traffic.
const (
	countAwaited traffic.Count = "awaited" // received datagrams before which there was nothing to receive
	// of the whole trial: the kernel dropped them at the sink's full receive buffer
	countDropped traffic.Count = "dropped"
	countBlocked traffic.Count = "blocked" // how often a send had to wait because the path held a whole send buffer
)

// counts are the counters of one trial, of either side.
type counts struct {
	repeated, reordered, backlog, awaited, dropped, blocked int64
}

func (c *counts) put(s *traffic.Sample) {
	s.Count(traffic.CountRepeated, c.repeated)
	s.Count(traffic.CountReordered, c.reordered)
	s.Count(traffic.CountBacklog, c.backlog)
	s.Count(countAwaited, c.awaited)
	s.Count(countDropped, c.dropped)
	s.Count(countBlocked, c.blocked)
}

// Collect implements [traffic.Collector].
func (s *sink) Collect() { s.counts.put(&s.sample) }
