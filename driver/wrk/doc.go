// Package wrk is the driver wrk. It drives http in a closed loop, on connections that last, against the workload's own
// server.
//
// It runs one thread, as a source of nettoll does. It prints latencies with at most two decimals of the unit that it
// chooses: they are right to half a percent at worst. The time that it measured follows from the number of requests and
// their rate, to within 0.01 %.
package wrk
