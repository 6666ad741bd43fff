package link

import "time"

// A Shape says how a link sends: what a queueing discipline at its root does to packets. The zero value does nothing.
type Shape struct {
	// Rate in bit/s of Ethernet frames, without preamble, checksum and gap; 0: as fast as it can.
	Rate int64
	// Delay is how much later each packet leaves, give or take Jitter: all delays between are equally likely, and no
	// packet leaves before the one before it.
	Delay, Jitter time.Duration
	// Loss is the share of packets that are lost at random, from 0 to 1.
	Loss float64
	// MTU of the link in bytes, from which the smallest burst follows.
	MTU int
}
