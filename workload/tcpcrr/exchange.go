package tcpcrr

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	limit = int64(traffic.DrainLimit) // ns: a transaction that is not over by this time after the close is abandoned

	// patience is the longest time for which a socket blocks, two ticks at HZ=250. It is less than the 10 ms after
	// which the Go runtime sends a busy thread a signal.
	patience = 8 * time.Millisecond

	readSize = 64 << 10 // bytes of one recv of a source

	// mostPairs is the largest number of pairs of ports that a source uses in turn: ten pairs of containers on one host
	// then leave no more connections behind than kernels keep by default, 131,072 in TIME_WAIT (tcp_max_tw_buckets) and
	// 262,144 in connection tracking (nf_conntrack_max).
	mostPairs = 8192

	undrained = "the last transaction was not complete at the end of the drain: use fewer pairs if that is often so"
)

const (
	kindSize   = 1 // bytes at the start of a request
	lengthSize = 4 // bytes, if requests have different lengths
)

// mark returns the first byte of a request.
//
//go:nosplit
func mark(trial uint64, last bool) byte {
	b := byte(trial) << 1
	if last {
		b |= 1
	}
	return b
}

// exchange is the common part of both sides.
type exchange struct {
	header     int // bytes at the start of a request
	request    int // bytes of a request, on average
	response   int // bytes of a response; 0: as many as its request
	sinkCloses bool
	in, out    []byte
	sample     traffic.Sample

	// The reason of the last failed call: lost, which is 0 if the other end has closed the connection, or late.
	lost sock.Errno
	late bool
}

func newExchange(s workload.Spec) exchange {
	e := exchange{
		header: kindSize, request: s.Params.Size("payload"), response: s.Params.Size("response"),
		sinkCloses: s.Params["closes"] == string(workload.Sink),
	}
	if workload.Varied(s.Params) {
		e.header = lengthSize
	}
	return e
}

// Sample implements [traffic.Endpoint].
func (e *exchange) Sample() *traffic.Sample { return &e.sample }

// forget discards the last trial.
func (e *exchange) forget() {
	e.sample = traffic.Sample{}
	e.lost, e.late = 0, false
}

// answer returns the length of the response to a request.
//
//go:nosplit
func (e *exchange) answer(request int) int {
	if e.response > 0 {
		return e.response
	}
	return request
}

// head writes the start of a request with a length.
//
//go:nosplit
func (e *exchange) head(kind byte, length int) {
	e.out[0] = kind
	if e.header == lengthSize {
		e.out[1], e.out[2], e.out[3] = byte(length), byte(length>>8), byte(length>>16)
	}
}

// again reports whether a failed call has to be repeated.
//
//go:nosplit
func (e *exchange) again(errno sock.Errno, deadline int64) bool {
	if errno != sock.Again && errno != sock.Interrupted {
		e.lost = errno
		return false
	}
	e.late = clock.Now() > deadline
	return !e.late
}

// write sends n bytes of out.
//
//go:nosplit
func (e *exchange) write(c sock.Socket, n int, deadline int64) bool {
	for at := 0; at < n; {
		sent, errno := c.Send(&e.out[at], n-at, sock.NoSignal)
		if errno == 0 {
			at += sent
		} else if !e.again(errno, deadline) {
			return false
		}
	}
	return true
}

// read receives n bytes, whatever their content.
//
//go:nosplit
func (e *exchange) read(c sock.Socket, n int, deadline int64) bool {
	for n > 0 {
		got, errno := c.Recv(&e.in[0], min(n, len(e.in)), 0)
		switch {
		case errno != 0:
			if !e.again(errno, deadline) {
				return false
			}
		case got == 0:
			e.lost = 0
			return false
		}
		n -= max(got, 0)
	}
	return true
}

// hungUp waits until the other end closes the connection; it returns false if it does not, or sends more data.
//
//go:nosplit
func (e *exchange) hungUp(c sock.Socket, deadline int64) bool {
	for {
		n, errno := c.Recv(&e.in[0], 1, 0)
		if errno == 0 {
			return n == 0
		}
		if !e.again(errno, deadline) {
			return false
		}
	}
}
