// Package dnsperf is the driver dnsperf, of DNS-OARC: dns over UDP and TCP in its closed loop, against the workload's
// own server.
//
// It asks for the same names in the same order, which it reads from a file that is memory. Queries are lost after 250
// ms (-t): each of the lost keeps one fewer in flight for as long.
//
// It is not used with 16 queries in flight or fewer, of all clients together. Its receiver takes up to 16 answers at a
// time (RECV_BATCH_SIZE) and wakes the sender before it has counted them (src/dnsperf.c, do_recv): a sender on another
// CPU, or a quick one, finds all of its queries still in flight and sleeps on. The next answer wakes it; where there is
// none left to come, the receiver's own timeout does, after 100 ms (TIMEOUT_CHECK_TIME). With one query in flight
// dnsperf 2.10 so makes some 10 to 2000 queries a second of 100,000, by chance. With 17 there is always an answer left.
//
// Where queries have a rate (-Q) it counts latency from when a query was sent, not from when it was due, so that a
// stall would hide: that is refused. Of latencies it says a mean.
package dnsperf
