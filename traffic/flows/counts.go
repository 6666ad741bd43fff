package flows

import "github.com/nettoll/nettoll/traffic"

// Counters of an [End], with those of package traffic.
const (
	// CountJitter is in ns: how the one-way times of messages that came one after the other on a flow differ, added up;
	// inside the window.
	CountJitter traffic.Count = "jitter"
	// CountFlows is the flows that a message came on inside the window.
	CountFlows traffic.Count = "flows"
	// CountSetup is in ns: from the beginning of the first connection to the last one's being established.
	CountSetup traffic.Count = "setup"
	// CountBlocked is how many times a send had to wait: the path held a whole send buffer.
	CountBlocked traffic.Count = "blocked"
)

// counts are the counters of one trial.
type counts struct {
	repeated, reordered, first, backlog, resent, jitter, flows, setup, blocked int64
}

// put notes all but those that the kernel keeps.
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
