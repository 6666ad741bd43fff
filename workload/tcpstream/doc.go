// Package tcpstream is the workload tcp-stream: one or more connections per pair that carry as many bytes as they can,
// one way or both; what counts is what the reading side has read.
//
// A thread drives all connections of its side. One connection one way is driven by calls that block, as iperf3, netperf
// and nuttcp do it; several, or both ways, by calls that do not, after a wait for any of them (ppoll), in which each
// connection that is ready gets its turn.
package tcpstream
