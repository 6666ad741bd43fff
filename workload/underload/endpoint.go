package underload

import (
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	limit = int64(traffic.DrainLimit) // ns: what arrives later than this after the close is lost

	// markerEvery is how long to wait for the answer to an end marker before the next one is sent, in ns. A sink that
	// is behind first has to receive the hundreds of datagrams in its buffer.
	markerEvery = 1_000_000

	// looksPerClock is how many times a loop checks the socket before it reads the clock to check whether it should
	// have ended.
	looksPerClock = 64
)

// The two highest bits of a sequence number are flags of its datagram; the rest is its number.
const (
	asked    = uint64(1) << 63 // to be answered
	flooding = uint64(1) << 62 // of the flood, not of the load

	// floodEnd as sequence number means that the flood is over. The answer has the delivered rate in place of the time.
	floodEnd = traffic.Marker - 1
)

// endpoint is the common part of both sides.
type endpoint struct {
	sock   sock.Socket
	in     []byte
	spin   bool // never sleeps
	sample traffic.Sample
	counts counts
}

func (e *endpoint) Sample() *traffic.Sample      { return &e.sample }
func (e *endpoint) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (e *endpoint) Facts() (sock.Facts, error)   { return e.sock.Facts() }
func (e *endpoint) Close()                       { e.sock.Close() }

// Prepare discards what an earlier trial left in the socket.
func (e *endpoint) Prepare(uint64) {
	e.sample, e.counts = traffic.Sample{}, counts{}
	e.sample.Late = e.sock.Drain()
}

// received returns the header of the last datagram.
//
//go:nosplit
func (e *endpoint) received() *[traffic.HeaderSize]byte { return (*[traffic.HeaderSize]byte)(e.in) }
