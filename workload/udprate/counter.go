package udprate

// What a counter says of a datagram.
type arrival int

const (
	inOrder   arrival = iota // later than all before
	reordered                // for the first time, after one with a higher number (RFC 4737, section 3.3)
	duplicate                // once more
	tooLate                  // so far behind that nobody remembers whether it came before
)

const (
	wordBits = 64
	words    = 1 << 10

	// memory is how far behind the highest number a datagram may be and still be known: the whole ring but the word that is being filled,
	// whose other bits are of the round before. At a million datagrams a second these are the last 65 ms, more than a drain.
	memory = (words - 1) * wordBits
)

// counter remembers which sequence numbers have come: a ring of bits, of which those ahead of the highest number are cleared word by
// word (RFC 6479). It costs some nanoseconds a datagram, whatever their order.
type counter struct {
	next uint64 // the highest number that came, plus one
	bits [words]uint64
}

// reset forgets everything.
func (c *counter) reset() {
	c.next = 0
	clear(c.bits[:])
}

// note takes one datagram in.
//
//go:nosplit
func (c *counter) note(seq uint64) arrival {
	word, bit := seq/wordBits, uint64(1)<<(seq%wordBits)
	if seq >= c.next {
		if c.next > 0 {
			c.forget((c.next-1)/wordBits, word)
		}
		c.next = seq + 1
		c.bits[word%words] |= bit
		return inOrder
	}
	if c.next-1-seq > memory {
		return tooLate
	}
	if c.bits[word%words]&bit != 0 {
		return duplicate
	}
	c.bits[word%words] |= bit
	return reordered
}

// forget clears the words behind last up to word, all of them at most once.
//
//go:nosplit
func (c *counter) forget(last, word uint64) {
	n := min(word-last, words)
	for i := uint64(1); i <= n; i++ {
		c.bits[(last+i)%words] = 0
	}
}
