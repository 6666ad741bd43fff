package udprate

import "github.com/nettoll/nettoll/traffic"

// A number on the wire says of which flow a datagram is, of which step of a search, and which of these it is. Numbers
// begin at 0 in each flow and step: what overtakes a datagram of another flow does not reorder it.
const (
	flowShift  = 56
	stepShift  = 48
	numberMask = 1<<stepShift - 1

	mostFlows = 64
	mostSteps = 1 << (flowShift - stepShift)
)

// An end marker has in place of its time: the flow that it ends, the step, whether the trial is over as well, and how
// often it was sent before. The sink answers it when those of all flows have come, and has then in place of the last
// how many datagrams of the step there were.
const (
	markerStep   = 8
	markerOver   = 1 << 16
	markerNumber = 24

	// of a search: also for how many ns the sink's thread has had no CPU since the trial began
	answerSize = traffic.HeaderSize + 8

	markerKey = 1<<markerNumber - 1 - (1<<markerStep - 1) // what an answer has in common with its marker whatever the flow
)
