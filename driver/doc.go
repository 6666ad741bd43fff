// Package driver holds the parts that drive a workload with another program instead of nettoll's own engine, in the
// same containers and into the same metrics. They give a second opinion on every figure. Each folder below is one
// driver.
package driver
