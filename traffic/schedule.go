package traffic

import "fmt"

// A ScheduleSpec is what a schedule is made of.
type ScheduleSpec struct {
	Rate     float64 // messages a second, on average
	Arrivals string  // when they are due: see [ParseArrivals]
	Sizes    string  // how long they are: see [ParseSizes]
	Size     int     // bytes on average
	Least    int     // bytes of the shortest possible message
	Most     int     // and of the longest
	Seed     uint64
}

// A Schedule says when each message of a trial is due and how long it is: pure functions of the message's number, so that who falls behind
// catches up, two stacks get the same arrivals, and a schedule can be tested without sleeping.
type Schedule struct {
	rate float64
	size int
}

// NewSchedule makes a schedule. Everything that takes time is done here: Due and Size look things up.
func NewSchedule(s ScheduleSpec) (*Schedule, error) {
	if s.Rate <= 0 {
		return nil, fmt.Errorf("schedule of %g messages a second", s.Rate)
	}
	return &Schedule{rate: s.Rate, size: s.Size}, nil
}

// Begin chooses where in its arrivals the trial of a number begins: trials of one number have the same in all stacks.
func (s *Schedule) Begin(trial uint64) {}

// Due returns when the message of a number (from 0) is due, in ns since the opening.
//
//go:nosplit
func (s *Schedule) Due(number uint64) int64 { return Due(number, s.rate) }

// Size returns its length in bytes.
//
//go:nosplit
func (s *Schedule) Size(number uint64) int { return s.size }

// ParseArrivals checks how arrivals are written and returns them as ids have them. "constant".
func ParseArrivals(s string) (string, error) {
	if s != "constant" {
		return "", fmt.Errorf("%q are no arrivals", s)
	}
	return s, nil
}

// ParseSizes does the same for sizes. "constant".
func ParseSizes(s string) (string, error) {
	if s != "constant" {
		return "", fmt.Errorf("%q are no sizes", s)
	}
	return s, nil
}
