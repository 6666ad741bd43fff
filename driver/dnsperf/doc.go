// Package dnsperf is the driver dnsperf, of DNS-OARC. It drives dns over UDP and TCP in a closed loop, against the
// workload's own server.
//
// It asks for the same names in the same order, from a file in memory. A query is lost after 250 ms (-t). Until then, a
// lost query leaves one fewer in flight.
//
// It is not used with 16 queries in flight or fewer, counted over all clients. Its receiver takes up to 16 answers at a
// time (RECV_BATCH_SIZE) and wakes the sender before it has counted them (src/dnsperf.c, do_recv). A sender on another
// CPU, or a quick one, still finds all of its queries in flight and sleeps on. The next answer wakes it. If no answer
// is outstanding, the receiver's own timeout wakes it, after 100 ms (TIMEOUT_CHECK_TIME). So with one query in flight
// dnsperf 2.10 makes between about 10 and 2000 queries a second of 100,000, by chance. With 17 there is always an
// answer outstanding.
//
// Queries at a rate (-Q) are refused: dnsperf counts their latency from when a query was sent, not from when it was
// due, which hides a stall. It reports only a mean of latencies.
package dnsperf
