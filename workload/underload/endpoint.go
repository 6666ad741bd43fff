package underload

import (
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	limit = int64(traffic.DrainLimit) // ns: what has not come by then after the close is lost

	// markerEvery is how long an end marker waits for its answer before the next one is sent, in ns: a sink that is behind
	// has the hundreds of datagrams that its buffer holds to take first.
	markerEvery = 1_000_000

	// looksPerClock is how many times a loop asks the socket before it asks the clock whether it should have ended.
	looksPerClock = 64
)

// The two highest bits of a sequence number say more of its datagram; the rest is its number.
const (
	asked    = uint64(1) << 63 // to be answered
	flooding = uint64(1) << 62 // of the flood, not of the load

	// floodEnd as sequence number says that the flood is over. The answer has the rate that was delivered in the place of
	// the time.
	floodEnd = traffic.Marker - 1
)

// endpoint is what both sides have.
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

// Prepare takes what an earlier trial left in the socket.
func (e *endpoint) Prepare(uint64) {
	e.sample, e.counts = traffic.Sample{}, counts{}
	e.sample.Late = e.sock.Drain()
}

// received is the header of the datagram that came last.
//
//go:nosplit
func (e *endpoint) received() *[traffic.HeaderSize]byte { return (*[traffic.HeaderSize]byte)(e.in) }
