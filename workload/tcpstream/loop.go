package tcpstream

import (
	"fmt"
	"os"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	limit = int64(traffic.DrainLimit) // ns

	// patience is how long send and recv block at most: two ticks at HZ=250.
	patience = 8 * time.Millisecond

	// reconnectLimit is how long both sides try to get a connection again after a trial has lost it.
	reconnectLimit = 500 * time.Millisecond

	undrained = "the stream was not drained: connected anew"

	readSize = 256 << 10 // bytes of one recv; iperf3 reads 128 KiB
)

// The stream is a sequence of messages. Each begins with a byte that says whether it is the last of its trial, which the sink
// finds by counting: no other byte is looked at.
const (
	more = 0
	last = 1
)

// endpoint is what both sides have. The connection lasts for the whole generation; a trial that could not be drained breaks it, and
// both sides make it anew before their next trial.
type endpoint struct {
	spec   workload.Spec
	home   *os.File // the container's namespace, where a new socket is made
	conn   sock.Socket
	broken bool
	sample traffic.Sample
}

func (e *endpoint) Sample() *traffic.Sample      { return &e.sample }
func (e *endpoint) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (e *endpoint) Facts() (sock.Facts, error)   { return e.conn.Facts() }

func (e *endpoint) Close() {
	e.conn.Close()
	_ = e.home.Close()
}

// reset forgets the last trial and says whether the connection can carry another.
func (e *endpoint) reset() bool {
	delivered := e.sample.Delivered
	clear(delivered)
	e.sample = traffic.Sample{Delivered: delivered}
	if e.broken {
		return false
	}
	var b [1]byte
	_, errno := e.conn.Recv(&b[0], 1, sock.DontWait)
	return errno == sock.Again // else: the peer has closed it, or sent what belongs to no trial
}

// drop ends the connection, for both sides.
func (e *endpoint) drop() {
	e.broken = true
	e.conn.Abort()
	e.conn = sock.Socket{FD: -1}
}

func (e *endpoint) adopt(conn sock.Socket) error {
	e.conn = conn
	e.broken = false
	return conn.SetTimeout(patience)
}

type source struct {
	endpoint
	message []byte
	resent  uint64 // up to the last trial
}

// connect makes the connection, from the local address it always has.
func (s *source) connect() error {
	var conn sock.Socket
	err := netns.Do(int(s.home.Fd()), func() (err error) {
		conn, err = sock.Stream(s.spec.Local, s.spec.Congestion)
		return err
	})
	if err != nil {
		return err
	}
	if err := conn.Connect(s.spec.Remote, reconnectLimit); err != nil {
		conn.Close()
		return err
	}
	s.resent = 0
	return s.adopt(conn)
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(uint64) {
	if s.reset() {
		return
	}
	s.drop() // its address must be free
	if err := s.connect(); err != nil {
		s.sample.Failure = fmt.Sprintf("the connection of the last trial is lost: %v", err)
	}
}

// Run writes messages until the close, then the last one.
func (s *source) Run(_ uint64, w traffic.Window) {
	if s.broken {
		return
	}
	deadline := w.Close + limit
	s.message[0] = more
	for clock.Now() < w.Close {
		if !s.write(deadline) {
			s.sample.Doubt = undrained
			s.drop()
			return
		}
		s.sample.Total++
	}
	s.message[0] = last
	s.broken = !s.write(deadline)
	if s.broken {
		s.sample.Doubt = undrained
		s.drop()
	}
}

// Collect implements [traffic.Collector].
func (s *source) Collect() {
	if resent, err := s.conn.Retransmits(); err == nil {
		s.sample.Resent = int64(resent - s.resent)
		s.resent = resent
	}
}

// write sends one whole message; false where it could not by the deadline.
//
//go:nosplit
func (s *source) write(deadline int64) bool {
	for at := 0; at < len(s.message); {
		n, errno := s.conn.Send(&s.message[at], len(s.message)-at, sock.NoSignal)
		if errno == 0 {
			at += n
			continue
		}
		if errno != sock.Again && errno != sock.Interrupted || clock.Now() > deadline {
			return false
		}
	}
	return true
}

type sink struct {
	endpoint
	listener sock.Socket
	message  int // bytes
	buf      []byte
}

// Ready implements [workload.Readier]: it accepts the source's connection.
func (s *sink) Ready(timeout time.Duration) error {
	conn, err := s.listener.Accept(timeout)
	if err != nil {
		return err
	}
	return s.adopt(conn)
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(uint64) {
	if s.reset() {
		return
	}
	s.drop()
	if err := s.Ready(reconnectLimit); err != nil {
		s.sample.Failure = fmt.Sprintf("the connection of the last trial is lost: %v", err)
	}
}

// Close implements [traffic.Endpoint].
func (s *sink) Close() {
	s.listener.Close()
	s.endpoint.Close()
}

// Run reads until the last message has come whole, or cannot come any more.
func (s *sink) Run(_ uint64, w traffic.Window) {
	if s.broken {
		return
	}
	slice := (w.Close - w.Open) / traffic.Slices
	if !s.read(w, slice) {
		s.sample.Doubt = undrained
		s.drop()
	}
}

//go:nosplit
func (s *sink) read(w traffic.Window, slice int64) bool {
	delivered := s.sample.Delivered
	next, due := 1, w.Open+slice // the slice that is not complete yet, and its end
	head := 0                    // bytes until the next message's first byte
	final := false               // the last message has begun
	total := int64(0)
	for {
		n, errno := s.conn.Recv(&s.buf[0], len(s.buf), 0)
		now := clock.Now()
		for now > due && next <= traffic.Slices {
			delivered[next] = total
			next++
			due += slice
		}
		if errno != 0 || n == 0 {
			if errno == 0 || errno != sock.Again && errno != sock.Interrupted || now > w.Close+limit {
				s.sample.Bytes = total
				return false
			}
			continue
		}
		total += int64(n)
		at := head
		for at < n {
			if final {
				return false // bytes after the last message: the source is in another trial
			}
			final = s.buf[at] == last
			at += s.message
		}
		head = at - n
		if final && head == 0 {
			for ; next <= traffic.Slices; next++ { // only where the last read ended before the close by the sink's clock
				delivered[next] = total
			}
			s.sample.Bytes = total
			return true
		}
	}
}
