// Package lasting manages TCP connections that a workload keeps from trial to trial, outside the trials.
//
// The connections exist for a whole generation. A trial that could not be completed breaks them. Before the next trial,
// both ends then drop all their connections, the source connects again, and the sink accepts.
package lasting
