// Package lasting holds TCP connections that a workload keeps from trial to trial: their life outside of trials.
//
// They stand for a whole generation. A trial that could not be brought to its end breaks them; both ends then drop all
// of theirs before the next trial, the source dials anew, and the sink accepts.
package lasting
