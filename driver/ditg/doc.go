// Package ditg is the driver d-itg. It drives udp-rate at a rate, with constant or random gaps, as the receiver logs
// it, and the workloads that SeCoNetBench ran with D-ITG: burst, and one player of quake3.
//
// ITGSend's -t counts ms, but traffic flows for whole seconds, as with other drivers. A trial takes 3.5 s, of which
// traffic flows for one. It is over 2.1 s after its start, because ITGSend waits for a second before it ends. A trial
// of burst is longer by the time that a burst and its pause need beyond one second. ITGSend sleeps from one datagram to
// the next and never makes up for lateness: it sends a few percent less than its rate at 100/s and 1000/s, and about
// half of it at 10,000/s. Trials of udp-rate report this. It chooses its own port.
//
// One-way latency, for burst and quake3, runs from the time in a datagram, when it was made, to when the receiver's
// program had it. Both times are by the one machine's clock, in µs. The first datagram after a pause of burst (-B) is
// made before the pause and sent after it. With a pause of 1 s its latency is 1 s, once in each burst of 95. Medians
// are not affected. Means, jitter, maxima and percentiles from the 99th on are D-ITG's figures, and wrong. None of them
// includes the time that a datagram waited after it was due.
//
// For quake3 it sends a player's datagrams. It has no server, and nothing comes back. ITGSend 2.8.1 with a file of
// several flows, which several players need, did not end in four runs of five, so it drives only one player.
//
// Its round-trip meter (-m rttm) is not used for udp-rr at a rate: it counts from when a request was sent, not from
// when it was due, which hides a stall.
package ditg
