// Package tcpstream is the workload tcp-stream: one or more connections per pair carry as many bytes as they can, in
// one direction or both. It counts what the reading side has read.
//
// A thread drives all connections of its side. One connection in one direction is driven by blocking calls, as in
// iperf3, netperf and nuttcp. Several connections, or both directions, are driven by non-blocking calls after a wait
// for any of them (ppoll), in which each ready connection gets its turn.
package tcpstream
