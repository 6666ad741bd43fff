// Package workload is the kind of part that a pair exchanges as traffic: what a workload is called, which parameters it
// has, how its two endpoints are opened and what their samples mean.
package workload
