// Package netperf is the driver netperf: udp-rate by UDP_STREAM, as its receiver counts it, tcp-stream by TCP_STREAM
// and TCP_MAERTS, udp-rr and tcp-rr by UDP_RR and TCP_RR, tcp-crr by TCP_CRR.
//
// Its testlen counts whole seconds: a trial has 2.5 s, or of datagrams and connections 6.5 s, of which traffic flows
// for one, without a warm-up, and is over as soon as both ends have ended: after 1.1 s, but after 5 s with TCP_CRR. Of
// latencies it tells mean, median and two more quantiles, those in whole µs: a median of 12 µs is right to 4 %.
//
// Its connections come to one port of the sink, where ours by default come to eight in turn.
//
// It looks addresses up with AI_ADDRCONFIG (getaddrinfo(3)): one of a family of which its namespace has none but
// loopback's is unknown to it.
package netperf
