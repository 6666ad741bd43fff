package flows

import "github.com/nettoll/nettoll/traffic"

// Counters of an [End], in addition to those of package traffic.
const (
	// CountJitter is in ns: the sum of the differences between one-way times of consecutive messages on a flow, inside
	// the window.
	CountJitter traffic.Count = "jitter"
	// CountFlows is the number of flows on which a message arrived inside the window.
	CountFlows traffic.Count = "flows"
	// CountSetup is in ns: the time from the start of the first connection until the last one was established.
	CountSetup traffic.Count = "setup"
	// CountBlocked is the number of times that a send had to wait because the path held a whole send buffer.
	CountBlocked traffic.Count = "blocked"
)

// counts are the counters of one trial.
type counts struct {
	repeated, reordered, first, backlog, resent, jitter, flows, setup, blocked int64
}

// put sets all counters except those of the kernel.
func (c *counts) put(s *traffic.Sample) {
	s.Count(traffic.CountRepeated, c.repeated)
	s.Count(traffic.CountReordered, c.reordered)
	s.Count(traffic.CountFirst, c.first)
	s.Count(traffic.CountBacklog, c.backlog)
	s.Count(CountJitter, c.jitter)
	s.Count(CountFlows, c.flows)
	s.Count(CountSetup, c.setup)
	s.Count(CountBlocked, c.blocked)
}
