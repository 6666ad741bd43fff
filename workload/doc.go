// Package workload is the kind of part for the traffic that a pair exchanges. It defines the description and parameters
// of a workload, how its two endpoints are opened, and what their samples mean.
package workload
