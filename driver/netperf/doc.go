// Package netperf is the driver netperf. It drives udp-rate with UDP_STREAM, as the receiver counts it, tcp-stream with
// TCP_STREAM and TCP_MAERTS, udp-rr and tcp-rr with UDP_RR and TCP_RR, and tcp-crr with TCP_CRR.
//
// Its testlen counts whole seconds. A trial takes 2.5 s, or 6.5 s for datagrams and connections, of which traffic flows
// for one, without a warm-up. It is over as soon as both ends have ended: after 1.1 s, but after 5 s with TCP_CRR. It
// reports the mean latency, and the median and two more quantiles in whole µs: a median of 12 µs is right to 4 %.
//
// Its connections go to one port of the sink. Nettoll's own engine uses eight ports in turn by default.
//
// It resolves addresses with AI_ADDRCONFIG (getaddrinfo(3)). So it does not accept an address of a family if its
// namespace has only loopback's address of that family.
package netperf
