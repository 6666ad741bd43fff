package udprate

import "github.com/nettoll/nettoll/traffic"

// A number on the wire has the flow of a datagram, the step of a search, and its number among these. Numbers start at 0
// in each flow and step, so a datagram that overtakes one of another flow is not reordered.
const (
	flowShift  = 56
	stepShift  = 48
	numberMask = 1<<stepShift - 1

	mostFlows = 64
	mostSteps = 1 << (flowShift - stepShift)
)

// Instead of its time, an end marker has: the flow that it ends, the step, whether the trial is over as well, and how
// often it was sent before. The sink answers when the markers of all flows have arrived; in its answer, the last field
// is the number of datagrams of the step.
const (
	markerStep   = 8
	markerOver   = 1 << 16
	markerNumber = 24

	// for a search: also the ns for which the sink's thread has had no CPU since the trial began
	answerSize = traffic.HeaderSize + 8

	markerKey = 1<<markerNumber - 1 - (1<<markerStep - 1) // what an answer shares with its marker, whatever the flow
)
