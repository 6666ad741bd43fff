// Package wrk is the driver wrk: http in its closed loop, on connections that last, against the workload's own server.
//
// It runs one thread, as a source of nettoll does. It prints what it has measured, latencies with at most two decimals
// of the unit that it chooses: they are right to half a percent at worst. How long it measured follows from the number
// of requests and their rate, which say it to 0.01 %.
package wrk
