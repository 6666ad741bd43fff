package tcprr

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	limit = int64(traffic.DrainLimit) // ns: a response that is not there by then after the close is not waited for

	// patience is how long send and recv block at most, two ticks at HZ=250. It is less than the 10 ms after which the Go
	// runtime sends a busy thread a signal.
	patience = 8 * time.Millisecond

	// reconnectLimit is how long both sides try to get their connections again after a trial has lost them.
	reconnectLimit = 500 * time.Millisecond

	// looksPerClock is how many times a spinning loop asks its sockets before it asks the clock.
	looksPerClock = 64

	readSize = 64 << 10 // bytes of one recv

	undrained = "not all responses came before the drain was over: connected anew"
	hungUp    = "the other end has closed the connection"
)

// What a request begins with: whether it is the last of its trial, in one byte, or in the lowest of four of which the
// others are its length.
const (
	more = 0
	last = 1

	kindSize   = 1 // bytes
	lengthSize = 4
)

// endpoint is what both sides have.
type endpoint struct {
	spec     workload.Spec
	home     *os.File // the container's namespace, where new sockets are made
	conns    []sock.Socket
	resent   uint64 // up to the last trial, on all connections
	broken   bool
	spin     bool
	header   int // bytes that a request begins with
	request  int // bytes of a request, on average
	response int // bytes of a response; 0: as many as its request
	poller   *sock.Poller
	in, out  []byte
	sample   traffic.Sample
	backlog  int64 // of a source: [traffic.CountBacklog]
	planted  int64 // of a sink: [traffic.CountPlanted]

	// Why the connections were given up in a trial: the other end has closed one, or an error.
	closed bool
	errno  sock.Errno
}

// open makes what both sides have, and no connection. The calling thread is inside the container's namespace.
func open(s workload.Spec) (endpoint, error) {
	home, err := netns.Current()
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{
		spec: s, home: home, broken: true,
		conns: make([]sock.Socket, s.Params.Count("flows")), poller: sock.NewPoller(s.Params.Count("flows")),
		spin: s.Params["mode"] == "spin", header: kindSize,
		request: s.Params.Size("payload"), response: s.Params.Size("response"),
		in: make([]byte, readSize),
	}
	if workload.Varied(s.Params) {
		e.header = lengthSize
	}
	for i := range e.conns {
		e.conns[i].FD = -1
	}
	return e, nil
}

func (e *endpoint) Sample() *traffic.Sample { return &e.sample }

// Facts implements [traffic.Endpoint]. All connections are alike.
func (e *endpoint) Facts() (sock.Facts, error) { return e.conns[0].Facts() }

func (e *endpoint) Close() {
	for _, c := range e.conns {
		c.Close()
	}
	_ = e.home.Close()
}

// reset forgets the last trial and says whether the connections can carry another.
func (e *endpoint) reset() bool {
	e.sample, e.backlog, e.planted = traffic.Sample{}, 0, 0
	e.closed, e.errno = false, 0
	for _, c := range e.conns {
		e.broken = e.broken || !idle(c) // else the peer has closed it, or sent what belongs to no trial
	}
	return !e.broken
}

// idle says whether a connection stands and has nothing to receive.
func idle(c sock.Socket) bool {
	var b [1]byte
	_, errno := c.Recv(&b[0], 1, sock.DontWait)
	return errno == sock.Again
}

// drop ends the connections, for both sides.
func (e *endpoint) drop() {
	e.broken = true
	for i := range e.conns {
		e.conns[i].Abort()
		e.conns[i].FD = -1
	}
	e.resent = 0
}

// giveUp ends the connections where a trial has not come to its end, and says why.
func (e *endpoint) giveUp(w traffic.Window) {
	switch {
	case clock.Now() >= w.Close: // what happens from now on is no more than a drain that failed
		e.sample.Doubt = undrained
	case e.closed:
		e.sample.Failure = hungUp
	default:
		e.sample.Failure = "the connection broke"
	}
	e.drop()
}

// lost notes what a socket call says that failed for good, and returns false.
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

// write sends n bytes of out; false where that fails, or takes until the deadline.
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

// connect makes the connections of a source. The calling thread is inside the container's namespace.
func (s *source) connect() error {
	for i := range s.conns {
		local := s.spec.Local
		if i >= max(1, s.spec.LocalPorts) { // a port of the kernel's choice
			local = netip.AddrPortFrom(local.Addr(), 0)
		} else {
			local = netip.AddrPortFrom(local.Addr(), local.Port()+uint16(i))
		}
		c, err := sock.Stream(local, "")
		if err != nil {
			s.drop()
			return err
		}
		s.conns[i] = c
		if err := errors.Join(c.Set(options(s.spec)), c.SetTimeout(patience)); err != nil {
			s.drop()
			return err
		}
		if err := c.Connect(s.spec.Remote, reconnectLimit); err != nil {
			s.drop()
			return err
		}
	}
	s.broken = false
	return nil
}

// options are those of all sockets, listening ones too: connections inherit them.
func options(s workload.Spec) sock.Options {
	o := s.SocketOptions()
	o.NoDelay = true // a request that has to wait for the acknowledgement of the one before measures a timer (RFC 896)
	return o
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(uint64) {
	s.begin()
	if s.reset() {
		return
	}
	s.drop() // its addresses must be free
	if err := netns.Here(int(s.home.Fd()), s.connect); err != nil {
		s.sample.Failure = fmt.Sprintf("there is no connection: %v", err)
	}
}

// Ready implements [workload.Readier]: it accepts the source's connections. One that is over already, of an attempt
// that the source has given up, is passed over.
func (s *sink) Ready(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for i := 0; i < len(s.conns); {
		c, err := s.listener.Accept(time.Until(deadline))
		if err != nil {
			return err
		}
		if !idle(c) {
			c.Abort()
			continue
		}
		s.conns[i] = c
		i++
		if err := c.SetTimeout(patience); err != nil {
			return err
		}
	}
	s.broken = false
	return nil
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(uint64) {
	clear(s.streams)
	s.over = 0
	if s.reset() {
		return
	}
	s.drop()
	if err := s.Ready(reconnectLimit); err != nil {
		s.sample.Failure = fmt.Sprintf("there is no connection: %v", err)
	}
}

// Close implements [traffic.Endpoint].
func (s *sink) Close() {
	s.listener.Close()
	s.endpoint.Close()
}
