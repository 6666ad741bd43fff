package tcpstream

import (
	"fmt"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/lasting"
	"github.com/nettoll/nettoll/workload"
)

const (
	limit = int64(traffic.DrainLimit) // ns

	// patience is the longest time for which send, recv and ppoll block: two ticks at HZ=250.
	patience = 8 * time.Millisecond

	undrained = "the stream was not drained and was reconnected: use longer trials (--trial 1s) if that is often so"
	copied    = "zero copy: the kernel copied anyway, as loopback and veth do: use zerocopy=off"

	// readSize is the largest number of bytes in one recv. Over a veth pair, 256 KiB took 4 % less of the sender's CPU
	// per byte than 128 KiB, which is what iperf3 reads. 512 KiB took another 1 % less, and 5 % less of the reader's
	// CPU. SO_RCVLOWAT had no effect (medians of 30 interleaved rounds each, on a busy machine).
	readSize = 512 << 10

	// turnBytes and turnMessages limit what is written before the loop reads the clock or serves other connections,
	// because writing a small message takes less time than either.
	turnBytes    = 16 << 10
	turnMessages = 64
)

// A stream is a sequence of messages. Each begins with a byte that says whether it is the last of its trial. The reader
// finds that byte by counting and checks no other byte.
const (
	more = 0
	last = 1
)

// flow is the state of one connection. Each trial starts it anew.
type flow struct {
	conn   sock.Socket
	before sock.TCPInfo // up to the last trial

	at     int    // sent bytes of the message in progress
	ending bool   // it is the last message
	sent   bool   // the last message was sent completely
	full   bool   // no more sends until the kernel has completed some
	sends  uint32 // with zero copy

	head     int  // bytes until the first byte of the next message
	final    bool // the last message has started to arrive
	received bool // it has arrived completely
}

// endpoint is the common part of both sides. A trial that could not be drained breaks the connections.
type endpoint struct {
	lasting.Connections
	spec          workload.Spec
	flows         []flow
	writes, reads bool
	// written messages: the same except for the first byte, so that neither is changed while the kernel may still read
	// it
	message, final []byte
	turn           int    // messages
	flags          int    // of send
	buf            []byte // for reading
	poller         *sock.Poller
	reaper         *sock.Reaper // nil without zero copy
	copied         uint32       // sends with zero copy for which the kernel copied
	sample         traffic.Sample
	delivered      []int64      // [traffic.SeriesDelivered]
	delayed        int64        // countDelayed
	tcp            sock.TCPInfo // the kernel's counters of the connections in the last trial

	next       int   // the slice in progress
	due, slice int64 // its end and its length in ns

	lost   sock.Errno // why a connection was lost during the trial
	closed bool       // the same: the other end has closed it
	lostAt int64      // ns
}

func newEndpoint(s workload.Spec, held lasting.Connections) endpoint {
	e := endpoint{Connections: held, spec: s, flows: make([]flow, len(held.Sockets)), flags: sock.NoSignal}
	direction := s.Params["direction"]
	e.writes = direction == both || (direction == forward) == (s.Side == workload.Source)
	e.reads = direction == both || !e.writes
	e.start()
	e.poller = sock.NewPoller(len(e.flows))
	size := s.Params.Size("message")
	e.turn = min(max(1, turnBytes/size), turnMessages)
	e.message, e.final = payload(size, more), payload(size, last)
	if s.Params.On("zerocopy") && e.writes {
		e.flags |= sock.ZeroCopy
		e.reaper = sock.NewReaper()
	}
	if e.reads {
		e.buf = make([]byte, readSize)
		e.delivered = make([]int64, traffic.Slices+1)
	}
	return e
}

// payload returns a message.
func payload(size int, first byte) []byte {
	m := traffic.Payload(size)
	m[0] = first
	return m
}

func (e *endpoint) Sample() *traffic.Sample      { return &e.sample }
func (e *endpoint) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (e *endpoint) Facts() (sock.Facts, error)   { return e.flows[0].conn.Facts() }

// start resets each flow, with its current connection.
func (e *endpoint) start() {
	for i, c := range e.Sockets {
		e.flows[i] = flow{conn: c}
	}
}

// options returns the options of all sockets.
func (e *endpoint) options() sock.Options {
	options := e.spec.SocketOptions()
	options.NoDelay = e.spec.Params.On("nodelay")
	return options
}

// ready prepares a connection for the loops.
func (e *endpoint) ready(conn sock.Socket) error {
	if e.reaper != nil {
		if err := conn.SetZeroCopy(); err != nil {
			return err
		}
	}
	return conn.SetTimeout(patience)
}

// reset discards the last trial, and reports whether the connections can carry another one.
func (e *endpoint) reset() bool {
	clear(e.delivered)
	e.sample, e.delayed, e.tcp = traffic.Sample{}, 0, sock.TCPInfo{}
	e.lost, e.closed, e.lostAt, e.copied = 0, false, 0, 0
	if !e.Stand() {
		return false
	}
	for i := range e.flows {
		f := &e.flows[i]
		*f = flow{conn: f.conn, sends: f.sends}
		f.conn.Nagle(!e.spec.Params.On("nodelay")) // off since the end of the last trial
	}
	return true
}

// begin records the kernel's counters so far.
func (e *endpoint) begin() {
	if !e.writes {
		return
	}
	for i := range e.flows {
		e.flows[i].before, _ = e.flows[i].conn.TCPInfo() // if the connection is gone, the trial reports that
	}
}

// Collect implements [traffic.Collector]. It reads the kernel's counters since begin.
func (e *endpoint) Collect() {
	e.sample.Count(countDelayed, e.delayed)
	if e.reads {
		e.sample.Series = traffic.Series{traffic.SeriesDelivered: e.delivered}
	}
	if !e.writes || e.Broken {
		return
	}
	e.tcp = sock.TCPInfo{}
	for i := range e.flows {
		f := &e.flows[i]
		e.reap(f)
		if info, err := f.conn.TCPInfo(); err == nil {
			e.tcp.Add(info.Since(f.before))
		}
	}
	put(&e.sample, e.tcp)
	if e.copied > 0 && e.sample.Doubt == "" {
		e.sample.Doubt = copied
	}
}

// drop ends the connections, for both sides.
func (e *endpoint) drop() {
	e.Drop()
	e.start()
}

// Run implements [traffic.Endpoint].
func (e *endpoint) Run(_ uint64, w traffic.Window) {
	if e.Broken {
		return
	}
	e.slice = (w.Close - w.Open) / traffic.Slices
	e.next, e.due = 1, w.Open+e.slice
	woken := clock.Now() - w.Open // it was ready to run since then
	delay := thread.Delay()
	var done bool
	switch {
	case len(e.flows) > 1 || e.writes && e.reads:
		done = e.exchange(w)
	case e.writes:
		done = e.write(w)
	default:
		done = e.read(w)
	}
	e.delayed = woken + thread.Delay() - delay
	if e.reads { // the last read ended before the close by this side's clock, or there was none
		for ; e.next <= traffic.Slices; e.next++ {
			e.delivered[e.next] = e.sample.Bytes
		}
	}
	if done {
		return
	}
	e.Collect() // while the counters can still be read
	e.sample.Doubt = undrained
	if e.lostAt != 0 && e.lostAt < w.Close {
		e.sample.Doubt, e.sample.Failure = "", "the connection was lost in mid-trial: "+e.why()
	}
	e.drop()
}

func (e *endpoint) why() string {
	if e.closed {
		return "the other end closed it"
	}
	return e.lost.Error()
}

type source struct{ endpoint }

// connect begins to make the connections.
func (s *source) connect() error {
	way := lasting.Way{Local: s.spec.Local, Ports: s.spec.LocalPorts, Remote: s.spec.Remote}
	err := s.Dial(way, func(c sock.Socket) error {
		if err := c.Set(s.options()); err != nil {
			return err
		}
		return s.ready(c)
	})
	s.start()
	return err
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(uint64) {
	if !s.reset() {
		s.drop() // their addresses must be free
		err := s.connect()
		if err == nil {
			err = s.Ready(lasting.ReconnectLimit)
		}
		if err != nil {
			s.drop()
			s.sample.Failure = fmt.Sprintf("the connection of the previous trial was lost: %v", err)
			return
		}
	}
	s.begin()
}

type sink struct {
	endpoint
	listener sock.Socket
}

// Ready implements [workload.Readier]. It accepts the source's connections.
func (s *sink) Ready(timeout time.Duration) error {
	err := s.Accept(s.listener, timeout, s.ready)
	s.start()
	return err
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(uint64) {
	if !s.reset() {
		s.drop()
		if err := s.Ready(lasting.ReconnectLimit); err != nil {
			s.drop()
			s.sample.Failure = fmt.Sprintf("the connection of the previous trial was lost: %v", err)
			return
		}
	}
	s.begin()
}

// Close implements [traffic.Endpoint].
func (s *sink) Close() {
	s.listener.Close()
	s.endpoint.Close()
}
