// Package ditg is the driver d-itg: udp-rate at a rate, with constant or random gaps, as the receiver has logged it,
// and what SeCoNetBench had D-ITG do: burst, and a player of quake3.
//
// ITGSend's -t counts ms, but as with other drivers traffic flows for whole seconds: a trial has 3.5 s, of which
// traffic flows for one, and is over 2.1 s after its start: ITGSend waits for a second before it ends. A trial of burst
// is longer by what a burst and its pause have more. It sleeps from one datagram to the next and never makes up for
// what it comes late: it sends some percent less than its rate at 100/s and 1000/s and about half of it at 10,000/s,
// which trials of udp-rate say. It chooses its own port.
//
// One-way latency, of burst and quake3, is from the time in a datagram, which is when it was made, to when the
// receiver's program had it, by the clock of the one machine, in µs. The first datagram after a pause of burst (-B) is
// made before the pause and sent after it: with a pause of 1 s its latency is 1 s, once in each burst of 95. Medians do
// not see that; means, jitter, maxima and percentiles from the 99th on are D-ITG's, and wrong. What a datagram waited
// since it was due is in none of them.
//
// Quake3 is what a player sends; there is no server, and nothing comes back. ITGSend 2.8.1 with a file of several
// flows, as several players are, did not end in four runs of five: one player it is.
//
// Its round-trip meter (-m rttm) is not used for udp-rr at a rate: it counts from when a request was sent, not from
// when it was due, so that a stall would hide.
package ditg
