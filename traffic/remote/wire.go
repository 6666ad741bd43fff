package remote

import "github.com/nettoll/nettoll/traffic"

// Methods of a worker. All times are in nanoseconds of its CLOCK_MONOTONIC.
const (
	// Clock returns the time: nothing → clockAnswer.
	Clock = "turn.clock"
	// Call gives the turn to the threads and returns when all have arrived: callParams → times.
	Call = "turn.call"
	// Open opens the trial at a time, and returns when all threads have left and all windows are closed: openParams →
	// openAnswer.
	Open = "turn.open"
	// Shut ends a trial early, or makes sure that it has ended: shutParams → shutAnswer. Threads at its gate do not start.
	Shut = "turn.shut"
)

// times says when a call came and when it was answered.
type times struct {
	Received int64 `json:"received"`
	Answered int64 `json:"answered"`
}

// clockAnswer says which clock the times are of.
type clockAnswer struct {
	times
	Name string `json:"name,omitempty"` // see clock.Name
}

type callParams struct {
	Ticket  uint32 `json:"ticket"`
	Cell    int    `json:"cell"`
	Threads int    `json:"threads"` // of this worker that take part
	Pairs   int    `json:"pairs"`   // all threads of this worker
}

type openParams struct {
	Ticket uint32         `json:"ticket"`
	Window traffic.Window `json:"window"`
	Quiet  int64          `json:"quiet"` // until then no answer is sent: the windows of others may be open
}

type openAnswer struct {
	times
	Late     int64 `json:"late"`  // ns from the opening until the last thread began
	Ended    int64 `json:"ended"` // when the last thread left
	Softirqd int64 `json:"softirqd"`
	Probe    int64 `json:"probe"`
}

type shutParams struct {
	Ticket uint32 `json:"ticket"`
}

// shutAnswer lists pairs.
type shutAnswer struct {
	times
	Arrived []int `json:"arrived"`
	Left    []int `json:"left"`
}
