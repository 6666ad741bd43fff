package tcprr

import (
	"errors"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/lasting"
	"github.com/nettoll/nettoll/workload"
)

const (
	limit = int64(traffic.DrainLimit) // ns: how long after the close responses are waited for

	// patience is the longest time for which send and recv block, two ticks at HZ=250. It is less than the 10 ms after
	// which the Go runtime sends a busy thread a signal.
	patience = 8 * time.Millisecond

	// looksPerClock is how many times a spinning loop checks its sockets before it reads the clock.
	looksPerClock = 64

	readSize = 64 << 10 // bytes of one recv

	undrained = "not all responses arrived before the drain ended, and the connection is a new one: lower the rate " +
		"or in-flight if that is often so"
	hungUp = "the other end closed the connection"
)

// The start of a request: one byte that says whether it is the last of its trial, or four bytes, the lowest of which
// says that, with the length in the others.
const (
	more = 0
	last = 1

	kindSize   = 1 // bytes
	lengthSize = 4
)

// endpoint is the common part of both sides.
type endpoint struct {
	lasting.Connections
	conns    []sock.Socket // the same
	spec     workload.Spec
	resent   uint64 // up to the last trial, on all connections
	spin     bool
	header   int // bytes at the start of a request
	request  int // bytes of a request, on average
	response int // bytes of a response; 0: as many as its request
	poller   *sock.Poller
	in, out  []byte
	sample   traffic.Sample
	backlog  int64 // for a source: [traffic.CountBacklog]
	planted  int64 // for a sink: [traffic.CountPlanted]

	// The reason why the connections were abandoned in a trial: the other end has closed one, or an error.
	closed bool
	errno  sock.Errno
}

// open makes the common part of both sides, without connections. The calling thread must be in the container's
// namespace.
func open(s workload.Spec) (endpoint, error) {
	held, err := lasting.New(s.Params.Count("flows"))
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{
		Connections: held, conns: held.Sockets, spec: s, poller: sock.NewPoller(len(held.Sockets)),
		spin: s.Params["mode"] == "spin", header: kindSize,
		request: s.Params.Size("payload"), response: s.Params.Size("response"),
		in: make([]byte, readSize),
	}
	if workload.Varied(s.Params) {
		e.header = lengthSize
	}
	return e, nil
}

func (e *endpoint) Sample() *traffic.Sample { return &e.sample }

// Facts implements [traffic.Endpoint]. All connections have the same facts.
func (e *endpoint) Facts() (sock.Facts, error) { return e.conns[0].Facts() }

// reset discards the last trial, and reports whether the connections can carry another one.
func (e *endpoint) reset() bool {
	e.sample, e.backlog, e.planted = traffic.Sample{}, 0, 0
	e.closed, e.errno = false, 0
	return e.Stand()
}

// drop ends the connections, for both sides.
func (e *endpoint) drop() {
	e.Drop()
	e.resent = 0
}

// giveUp ends the connections if a trial was not completed, and records why.
func (e *endpoint) giveUp(w traffic.Window) {
	switch {
	case clock.Now() >= w.Close: // from now on, a failure is only a failed drain
		e.sample.Doubt = undrained
	case e.closed:
		e.sample.Failure = hungUp
	default:
		e.sample.Failure = "the connection broke"
	}
	e.drop()
}

// lost records the error of a socket call that failed permanently, and returns false.
//
//go:nosplit
func (e *endpoint) lost(errno sock.Errno) bool {
	e.closed, e.errno = errno == 0, errno
	return false
}

// Collect implements [traffic.Collector].
func (e *endpoint) Collect() {
	e.sample.Count(traffic.CountBacklog, e.backlog)
	e.sample.Count(traffic.CountPlanted, e.planted)
	if e.errno != 0 && e.sample.Failure != "" {
		e.sample.Failure += ": " + e.errno.Error()
		e.errno = 0
	}
	var sum uint64
	for _, c := range e.conns {
		n, err := c.Retransmits()
		if err != nil {
			return
		}
		sum += n
	}
	e.sample.Count(traffic.CountResent, int64(sum-e.resent))
	e.resent = sum
}

// write sends n bytes of out; it returns false if that fails, or is not done by the deadline.
//
//go:nosplit
func (e *endpoint) write(c sock.Socket, n int, deadline int64) bool {
	for at := 0; at < n; {
		sent, errno := c.Send(&e.out[at], n-at, sock.NoSignal)
		if errno == 0 {
			at += sent
			continue
		}
		if errno != sock.Again && errno != sock.Interrupted {
			return e.lost(errno)
		}
		if clock.Now() > deadline {
			return false
		}
	}
	return true
}

// connect begins to make the connections of a source.
func (s *source) connect() error {
	way := lasting.Way{Local: s.spec.Local, Ports: s.spec.LocalPorts, Remote: s.spec.Remote}
	return s.Dial(way, func(c sock.Socket) error { return errors.Join(c.Set(options(s.spec)), c.SetTimeout(patience)) })
}

// options returns the options of all sockets, including listening ones, from which connections inherit them.
func options(s workload.Spec) sock.Options {
	o := s.SocketOptions()
	o.NoDelay = true // a request that waits for the previous acknowledgement would measure a timer (RFC 896)
	return o
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(uint64) {
	s.begin()
	if !s.reset() {
		s.drop() // its addresses must be free
		err := s.connect()
		if err == nil {
			err = s.Ready(lasting.ReconnectLimit)
		}
		if err != nil {
			s.sample.Failure = fmt.Sprintf("no connection: %v", err)
			return
		}
	}
	if s.spin && s.alone() {
		s.dither.Measure(func() { _, _ = s.conns[0].Peek(&s.in[0], 1) })
	}
}

// Ready implements [workload.Readier]. It accepts the source's connections.
func (s *sink) Ready(timeout time.Duration) error {
	return s.Accept(s.listener, timeout, func(c sock.Socket) error { return c.SetTimeout(patience) })
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(uint64) {
	clear(s.streams)
	s.over = 0
	if s.reset() {
		return
	}
	s.drop()
	if err := s.Ready(lasting.ReconnectLimit); err != nil {
		s.sample.Failure = fmt.Sprintf("no connection: %v", err)
	}
}

// Close implements [traffic.Endpoint].
func (s *sink) Close() {
	s.listener.Close()
	s.endpoint.Close()
}
