package traffic

// Came classifies a received datagram.
type Came int

// Classes of datagrams.
const (
	InOrder   Came = iota // after all earlier ones
	Reordered             // for the first time, but after one with a higher number (RFC 4737, section 3.3)
	Duplicate             // received before
	TooLate               // so far behind that it is unknown whether it was received before
)

const (
	wordBits = 64
	words    = 1 << 10

	// memory is how far behind the highest number a datagram may be and still be known: the whole ring except the word
	// that is being filled, whose other bits belong to the round before. At a million datagrams a second, that is the
	// last 65 ms, more than a drain.
	memory = (words - 1) * wordBits
)

// A Counter remembers which sequence numbers have been received. It is a ring of bits; those ahead of the highest
// number are cleared word by word (RFC 6479). It takes a few nanoseconds per datagram, in any order.
type Counter struct {
	next uint64 // the highest received number, plus one
	bits [words]uint64
}

// Reset clears the counter.
func (c *Counter) Reset() {
	c.next = 0
	clear(c.bits[:])
}

// Note records one datagram.
//
//go:nosplit
func (c *Counter) Note(seq uint64) Came {
	word, bit := seq/wordBits, uint64(1)<<(seq%wordBits)
	if seq >= c.next {
		if c.next > 0 {
			c.forget((c.next-1)/wordBits, word)
		}
		c.next = seq + 1
		c.bits[word%words] |= bit
		return InOrder
	}
	if c.next-1-seq > memory {
		return TooLate
	}
	if c.bits[word%words]&bit != 0 {
		return Duplicate
	}
	c.bits[word%words] |= bit
	return Reordered
}

// forget clears the words after last up to word, each at most once.
//
//go:nosplit
func (c *Counter) forget(last, word uint64) {
	n := min(word-last, words)
	for i := uint64(1); i <= n; i++ {
		c.bits[(last+i)%words] = 0
	}
}
