package tcpstream

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	limit = int64(traffic.DrainLimit) // ns

	// patience is how long send, recv and ppoll block at most: two ticks at HZ=250.
	patience = 8 * time.Millisecond

	// reconnectLimit is how long both sides try to get their connections again after a trial has lost them.
	reconnectLimit = 500 * time.Millisecond

	undrained = "the stream was not drained: connected anew"
	copied    = "zero copy: the kernel copied all the same"

	// readSize is how many bytes one recv takes at most. Over a veth pair 256 KiB took 4 % less of the sender's CPU for a
	// byte than 128 KiB, which is what iperf3 reads, and 512 KiB 1 % less again and 5 % less of the reader's; SO_RCVLOWAT
	// changed nothing (medians of 30 interleaved rounds each, on a busy machine).
	readSize = 512 << 10

	// turnBytes and turnMessages bound what is written between two looks at the clock, or at the other connections: small
	// messages take less time than either.
	turnBytes    = 16 << 10
	turnMessages = 64
)

// A stream is a sequence of messages. Each begins with a byte that says whether it is the last of its trial, which the
// reader finds by counting: no other byte is looked at.
const (
	more = 0
	last = 1
)

// flow is one connection. What it does in a trial begins anew with each.
type flow struct {
	conn   sock.Socket
	before sock.TCPInfo // of the trials before

	at     int    // bytes of the message that is being written which have been sent
	ending bool   // it is the last message
	sent   bool   // the last message has been sent whole
	full   bool   // no sends until the kernel has completed some
	sends  uint32 // with zero copy

	head     int  // bytes until the first byte of the next message
	final    bool // the last message has begun to come
	received bool // it has come whole
}

// endpoint is what both sides have. The connections last for the whole generation; a trial that could not be drained
// breaks them, and both sides make them anew before their next trial.
type endpoint struct {
	spec          workload.Spec
	home          *os.File // the container's namespace, where a new socket is made
	flows         []flow
	broken        bool
	writes, reads bool
	// that are written: the same but for the first byte, so that none is changed while the kernel may still read it
	message, final []byte
	turn           int    // messages
	flags          int    // of send
	buf            []byte // that is read into
	poller         *sock.Poller
	reaper         *sock.Reaper // nil without zero copy
	copied         uint32       // sends with zero copy that were none
	sample         traffic.Sample
	delivered      []int64      // [traffic.SeriesDelivered]
	delayed        int64        // countDelayed
	tcp            sock.TCPInfo // what the kernel has counted for the connections in the last trial

	next       int   // the slice that is not complete yet
	due, slice int64 // its end and its length in ns

	lost   sock.Errno // why a connection was lost in the trial
	closed bool       // likewise: its other end has closed it
	lostAt int64      // ns
}

func newEndpoint(s workload.Spec, home *os.File) endpoint {
	e := endpoint{spec: s, home: home, flows: make([]flow, s.Params.Count("flows")), broken: true, flags: sock.NoSignal}
	direction := s.Params["direction"]
	e.writes = direction == both || (direction == forward) == (s.Side == workload.Source)
	e.reads = direction == both || !e.writes
	for i := range e.flows {
		e.flows[i].conn = sock.Socket{FD: -1}
	}
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

func (e *endpoint) Close() {
	for _, f := range e.flows {
		f.conn.Close()
	}
	_ = e.home.Close()
}

// inside calls f in the container's namespace: there new sockets are made.
func (e *endpoint) inside(f func() error) error { return netns.Do(int(e.home.Fd()), f) }

// tune asks for the options of a socket, which connections that come to it have as well (sk_clone_lock,
// net/core/sock.c).
func (e *endpoint) tune(s sock.Socket) error {
	options := e.spec.SocketOptions()
	options.NoDelay = e.spec.Params.On("nodelay")
	return s.Set(options)
}

// ready makes a connection one for the loops.
func (e *endpoint) ready(conn sock.Socket) error {
	if e.reaper != nil {
		if err := conn.SetZeroCopy(); err != nil {
			return err
		}
	}
	return conn.SetTimeout(patience)
}

// idle says whether a connection stands and has nothing to be read.
func idle(conn sock.Socket) bool {
	var b [1]byte
	_, errno := conn.Recv(&b[0], 1, sock.DontWait)
	return errno == sock.Again // else: the peer has closed it, or sent what belongs to no trial
}

// reset forgets the last trial and says whether the connections can carry another.
func (e *endpoint) reset() bool {
	clear(e.delivered)
	e.sample, e.delayed, e.tcp = traffic.Sample{}, 0, sock.TCPInfo{}
	e.lost, e.closed, e.lostAt, e.copied = 0, false, 0, 0
	for i := range e.flows {
		f := &e.flows[i]
		*f = flow{conn: f.conn, sends: f.sends}
		if e.broken || !idle(f.conn) {
			return false
		}
		f.conn.Nagle(!e.spec.Params.On("nodelay")) // off since the end of the last trial
	}
	return true
}

// begin notes what the kernel has counted until now.
func (e *endpoint) begin() {
	if !e.writes {
		return
	}
	for i := range e.flows {
		e.flows[i].before, _ = e.flows[i].conn.TCPInfo() // where it is gone, the trial says so
	}
}

// Collect implements [traffic.Collector]: it reads what the kernel has counted since then.
func (e *endpoint) Collect() {
	e.sample.Count(countDelayed, e.delayed)
	if e.reads {
		e.sample.Series = traffic.Series{traffic.SeriesDelivered: e.delivered}
	}
	if !e.writes || e.broken {
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
	e.broken = true
	for i := range e.flows {
		e.flows[i].conn.Abort()
		e.flows[i].conn = sock.Socket{FD: -1}
	}
}

// Run implements [traffic.Endpoint].
func (e *endpoint) Run(_ uint64, w traffic.Window) {
	if e.broken {
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
	if e.reads { // where the last read ended before the close by this side's clock, or there was none
		for ; e.next <= traffic.Slices; e.next++ {
			e.delivered[e.next] = e.sample.Bytes
		}
	}
	if done {
		return
	}
	e.Collect() // as long as there is something to read
	e.sample.Doubt = undrained
	if e.lostAt != 0 && e.lostAt < w.Close {
		e.sample.Doubt, e.sample.Failure = "", "the connection was lost in mid-trial: "+e.why()
	}
	e.drop()
}

func (e *endpoint) why() string {
	if e.closed {
		return "its other end has closed it"
	}
	return e.lost.Error()
}

type source struct{ endpoint }

// connect makes the connections: the first ones from the ports that are this endpoint's, further ones from such as the
// kernel chooses.
func (s *source) connect() error {
	if err := s.inside(s.open); err != nil {
		return err
	}
	for _, f := range s.flows {
		if err := s.tune(f.conn); err != nil {
			return err
		}
		if err := s.ready(f.conn); err != nil {
			return err
		}
		if err := f.conn.Connect(s.spec.Remote, reconnectLimit); err != nil {
			return err
		}
	}
	s.broken = false
	return nil
}

func (s *source) open() (err error) {
	for i := range s.flows {
		local := netip.AddrPortFrom(s.spec.Local.Addr(), 0)
		if i < max(1, s.spec.LocalPorts) {
			local = netip.AddrPortFrom(local.Addr(), s.spec.Local.Port()+uint16(i))
		}
		s.flows[i] = flow{}
		if s.flows[i].conn, err = sock.Stream(local, ""); err != nil {
			return err
		}
	}
	return nil
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(uint64) {
	if !s.reset() {
		s.drop() // their addresses must be free
		if err := s.connect(); err != nil {
			s.drop()
			s.sample.Failure = fmt.Sprintf("the connection of the last trial is lost: %v", err)
			return
		}
	}
	s.begin()
}

type sink struct {
	endpoint
	listener sock.Socket
}

// listen opens the socket that connections come to.
func (s *sink) listen() error {
	err := s.inside(func() (err error) {
		s.listener, err = sock.Stream(s.spec.Local, "")
		return err
	})
	if err != nil {
		return err
	}
	if err := s.tune(s.listener); err != nil {
		return err
	}
	return s.listener.Listen()
}

// Ready implements [workload.Readier]: it accepts the source's connections, and passes over those that the source has
// given up.
func (s *sink) Ready(timeout time.Duration) error {
	until := time.Now().Add(timeout)
	for i := 0; i < len(s.flows); {
		conn, err := s.listener.Accept(time.Until(until))
		if err != nil {
			return err
		}
		if !idle(conn) {
			conn.Close()
			continue
		}
		s.flows[i] = flow{conn: conn}
		if err := s.ready(conn); err != nil {
			return err
		}
		i++
	}
	s.broken = false
	return nil
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(uint64) {
	if !s.reset() {
		s.drop()
		if err := s.Ready(reconnectLimit); err != nil {
			s.drop()
			s.sample.Failure = fmt.Sprintf("the connection of the last trial is lost: %v", err)
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
