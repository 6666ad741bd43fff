// Package ditg is the driver d-itg: udp-rate at a rate, with constant or random gaps, as the receiver has logged it.
//
// ITGSend's -t counts ms, but as with other drivers traffic flows for whole seconds: a trial has 3.5 s, of which traffic flows for one, and is over
// 2.1 s after its start: ITGSend waits for a second before it ends. It sleeps from one datagram to the next and never makes up for what it comes late: it
// sends some percent less than its rate at 1000/s and about half of it at 10,000/s, which its trials say. It chooses its own port.
//
// Its round-trip meter (-m rttm) is not used for udp-rr at a rate: it counts from when a request was sent, not from when it was due, so that a stall
// would hide.
package ditg
