// Package driver holds the kind of part that drives a workload with somebody else's program instead of nettoll's own
// engine, in the same containers and into the same metrics: a second opinion on every figure. Each folder below is one
// driver.
package driver
