package link

import "time"

// A Shape says how a queueing discipline at the root of a link limits, delays or drops packets. The zero value does
// nothing.
type Shape struct {
	// Rate in bit/s of Ethernet frames, without preamble, checksum and gap; 0 means no limit.
	Rate int64
	// Delay is how much later each packet leaves, plus or minus Jitter. All delays in that range are equally likely,
	// and a packet never leaves before the previous one.
	Delay, Jitter time.Duration
	// Loss is the share of packets that are dropped at random, from 0 to 1.
	Loss float64
	// MTU of the link in bytes, which determines the smallest burst.
	MTU int
}
