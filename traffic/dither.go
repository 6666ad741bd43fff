package traffic

import "github.com/nettoll/nettoll/internal/linux/clock"

// A Dither varies when an end that spins looks for the next message for the first time.
//
// A look that finds nothing takes 0.2 to 0.4 µs, and the looks follow the request at fixed times. An answer is found a
// whole number of looks after its request. If round trips vary by less than a look, the difference of two networks is
// then a whole number of looks, or none. With dither the first look is equally likely at each moment of a look, and
// the difference of two means is that of the networks. Requests reach a sink with the dither of their source, but its
// looks may take longer or shorter, so that it needs its own. (Quantization with dither: Schuchman, Dither signals and
// their effect on quantization noise, IEEE Transactions on Communication Technology, 1964.)
type Dither struct {
	look int64  // ns
	turn uint64 // when to look first, in units of 2^-64 of ditherLooks
}

const (
	// ditherLooks is how much the first look varies, in looks. It is more than one because the time of a look is known
	// only roughly, and no answer arrives as early: the other end needs a look and a call to send it.
	ditherLooks = 2

	// longest limits how long a look counts, in ns: beside other work it may have been measured as longer.
	longest = 1000

	// golden is 2^64 divided by the golden ratio: its multiples, modulo 2^64, are spread evenly.
	golden = 0x9E3779B97F4A7C15
)

// Measure finds out how long a look takes that finds nothing.
func (d *Dither) Measure(look func()) {
	const rounds, looks = 5, 20
	for round := range rounds {
		start := clock.Now()
		for range looks {
			look()
		}
		if each := (clock.Now() - start) / looks; round == 0 || each < d.look {
			d.look = each
		}
	}
	d.look = min(d.look, longest)
}

// Wait spins until it is time to look first.
//
//go:nosplit
func (d *Dither) Wait() {
	length := d.next()
	for start := clock.Now(); clock.Now()-start < length; {
	}
}

// next returns how long to wait, in nanoseconds.
//
//go:nosplit
func (d *Dither) next() int64 {
	d.turn += golden
	return int64(d.turn>>32) * ditherLooks * d.look >> 32
}
