package dialogue

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// ClientSpec configures a client.
type ClientSpec struct {
	Local, Remote netip.AddrPort // only the address of Local: the kernel chooses the ports of connections
	Options       sock.Options   // NoDelay is always set
	Connections   int
	Pipeline      int               // largest number of requests in flight on a connection; 0: 1
	Schedule      *traffic.Schedule // when requests are due; nil: the loop is closed. It ignores sizes
	Asks          Asks

	// Renew makes a connection for each request, when the request is due or when the one before is over. The connection
	// is timed (traffic.Connect). The server closes it after its answer, like an HTTP server (RFC 9112, section 9.6),
	// so that the port is free at once. The client waits for that before the next request; no latency includes it.
	// Pipeline must be 1.
	Renew bool

	// Fresh says that each trial has a new server: each Prepare makes new connections, and waits until the server
	// listens.
	Fresh bool

	// Load are the requests to a fresh server before its trial, in Prepare, and Loads is their number. They are not
	// timed, and all answers must be Good.
	Load  Asks
	Loads uint64 // a server that persists is loaded by its own side

	// Farewell, if set, is the request that reports to the server that the trial is over, after all answers. It is for
	// nettoll's own servers. Its answer has Leave bytes, which are not checked.
	Farewell []byte
	Leave    int
}

const (
	limit = int64(traffic.DrainLimit) // ns: how long after the close answers are waited for

	// patience is the longest sleep of a thread, in ns: less than the 10 ms after which the Go runtime sends a busy
	// thread a signal.
	patience = 8_000_000

	// early is the shortest time to the next request for which the client sleeps, and how much earlier than due that
	// sleep ends, in ns. Timers expire late (the slack of a thread's timers is 50 µs, prctl(2)).
	early = 150_000

	// prepareLimit is how long a client may connect and load. It must be at the gate before the others have waited
	// there for a second (gateLimit in traffic/board/board.go). Its server listens after 700 ms at the latest
	// (listenLimit in traffic/program).
	prepareLimit = 900 * time.Millisecond

	// again is how long it waits before it connects again to a server that does not listen yet. lastTry is the time
	// that it leaves for the last attempt.
	again   = 2 * time.Millisecond
	lastTry = 20 * time.Millisecond

	// lostAfter is how long it first waits before it begins a connection anew, and twice as long each time.
	lostAfter = 100 * time.Millisecond

	// loadDepth is the number of requests in flight on a connection while a server is loaded.
	loadDepth = 16

	readSize = 128 << 10 // bytes of one recv
	gather   = 64 << 10  // bytes of requests sent in one call, if a connection has several to send

	never = math.MaxInt64
)

// Messages in samples.
const (
	undrained = "not all responses arrived before the drain ended, and the connection is a new one: lower the rate " +
		"or in-flight if that is often so"
	unasked  = "it was not requested"
	unsent   = "it arrived before its request was sent"
	endless  = "its header does not contain its length"
	portless = "no free local port: all have a connection that has not ended (net.ipv4.ip_local_port_range)"
)

// Client is the source's end of a dialogue: a [traffic.Endpoint] and a [traffic.Collector]. For requests inside the
// window, its samples have Sent, Received (Good answers) and Errors (Bad answers).
//
// The kernel's counters of the connections (CountConnections, [traffic.CountResent]) are in the samples only if the
// connections outlast the trial.
//
// On a schedule, a request is inside the window if it was due there. In a closed loop, it is inside if its answer
// arrived there, or should have and did not. So the rate is also right if many large answers are under way when the
// window closes, and need longer than a drain.
type Client struct {
	spec      ClientSpec
	home      *os.File // the container's namespace, for new sockets
	maker     *sock.Maker
	granted   sock.Facts
	remote    sock.Address
	watcher   *sock.Watcher
	farewell  Asks
	conns     []connection
	idle      queue // on a schedule: connections with room for a request, the one idle for longest first
	in, out   []byte
	recorders traffic.Recorders
	sample    traffic.Sample
	trials    uint64
	broken    bool
	backlog   int64        // [traffic.CountBacklog]
	tcp       sock.TCPInfo // the kernel's counters of the connections in the last trial

	// State of one trial, or of requests before and after it.
	asks     *Asks
	schedule *traffic.Schedule
	renew    bool
	lanes    int    // connections in use
	depth    uint64 // largest number of requests in flight on each
	start    int64  // ns: start of its window
	number   uint64 // of the next request
	stop     uint64 // the first request that is not sent
	now      int64  // ns: when data was last received
	ahead    uint64 // requests below this number are due
	waiting  int    // requests without an answer, and connections that the server has to close
	deadline int64  // ns
	bad      int64  // number of Bad answers
	trouble  trouble
}

// connection is one connection with its unanswered requests.
type connection struct {
	sock.Socket
	state       state
	begun       int64        // ns: when connecting started
	asked       []request    // by number on the connection, modulo the length of the slice
	first, next uint64       // numbers on the connection of the oldest request and of the next one
	sending     uint64       // number of the oldest that the socket has not taken completely
	at          int          // bytes of it that were sent
	left        int          // bytes missing from the oldest's answer
	verdict     Verdict      // on that answer
	head        []byte       // the start of an answer of unknown length
	kept        int          // bytes in head
	full        bool         // the socket took no more: wait for room
	queued      bool         // it is in the queue of idle ones
	counted     sock.TCPInfo // up to the last trial
}

// request is an unanswered request.
type request struct {
	number    uint64
	due, sent int64 // ns
	size      int   // bytes, once its sending has started
}

type state int

const (
	shut       state = iota
	connecting       // connect(2) is under way
	open
	parting // everything is answered: the server closes it
)

// trouble is the first error, for Collect to describe.
type trouble struct {
	what   mishap
	errno  sock.Errno
	number uint64
	head   []byte // of the answer, if there is one
	size   int    // bytes of it
	inside bool   // in the middle of an answer
}

type mishap int

const (
	none mishap = iota
	closed
	broke
	alien
	strange // unrequested bytes
	hasty   // before its request was sent
	long
	noSocket
	noConnection
	noPort
	overdue
)

// queue is a ring of numbers of connections.
type queue struct {
	ring       []int32
	from, have int
}

//go:nosplit
func (q *queue) push(i int) {
	at := q.from + q.have
	if at >= len(q.ring) {
		at -= len(q.ring)
	}
	q.ring[at] = int32(i)
	q.have++
}

//go:nosplit
func (q *queue) pop() int {
	i := q.ring[q.from]
	if q.from++; q.from == len(q.ring) {
		q.from = 0
	}
	q.have--
	return int(i)
}

// NewClient makes a client without connections. The calling thread must be in the container's network namespace.
func NewClient(spec ClientSpec) (*Client, error) {
	spec.Pipeline = max(1, spec.Pipeline)
	if spec.Renew {
		spec.Pipeline = 1
	}
	c := &Client{
		spec: spec, remote: sock.NewAddress(spec.Remote), broken: true, renew: spec.Renew,
		conns: make([]connection, spec.Connections), idle: queue{ring: make([]int32, spec.Connections)},
	}
	longest := max(spec.Asks.Head, spec.Load.Head, 1)
	c.in, c.out, c.trouble.head = traffic.Buffer(longest+readSize), traffic.Buffer(gather), make([]byte, longest)
	c.farewell = Asks{Asker: &farewell{spec.Farewell, spec.Leave}, Head: 1}
	deepest := spec.Pipeline
	if spec.Loads > 0 {
		deepest = max(deepest, loadDepth)
	}
	for i := range c.conns {
		c.conns[i] = connection{
			Socket: sock.Socket{FD: -1}, asked: make([]request, 1<<bits.Len(uint(deepest-1))),
			head: make([]byte, longest),
		}
	}
	c.recorders[traffic.Latency] = traffic.NewRecorder()
	if spec.Renew {
		c.recorders[traffic.Connect] = traffic.NewRecorder()
	}
	if spec.Schedule != nil {
		c.recorders[traffic.Service], c.recorders[traffic.Departure] = traffic.NewRecorder(), traffic.NewRecorder()
	}
	return c, c.open()
}

// open acquires what has to be released; if it fails, nothing is left.
func (c *Client) open() error {
	var err error
	if c.home, err = netns.Current(); err != nil {
		return err
	}
	if c.watcher, err = sock.NewWatcher(); err != nil {
		_ = c.home.Close()
		return err
	}
	options := c.spec.Options
	options.NoDelay = true // a request that waits for the previous acknowledgement would measure a timer (RFC 896)
	if c.maker, c.granted, err = sock.NewMaker(netip.AddrPortFrom(c.spec.Local.Addr(), 0), options, patience); err != nil {
		c.Close()
		return err
	}
	c.maker.NeverBlock()
	return nil
}

// Sample implements [traffic.Endpoint].
func (c *Client) Sample() *traffic.Sample { return &c.sample }

// Recorders implements [traffic.Endpoint].
func (c *Client) Recorders() traffic.Recorders { return c.recorders }

// Facts implements [traffic.Endpoint]. All connections have the same facts.
func (c *Client) Facts() (sock.Facts, error) {
	if c.conns[0].state == open {
		return c.conns[0].Facts()
	}
	return c.granted, nil
}

// Close implements [traffic.Endpoint].
func (c *Client) Close() {
	c.drop()
	c.watcher.Close()
	_ = c.home.Close()
}

// drop closes all connections.
func (c *Client) drop() {
	c.broken = true
	for i := range c.conns {
		if p := &c.conns[i]; p.state != shut {
			p.Abort()
			p.FD, p.state = -1, shut
		}
	}
}

// Prepare implements [traffic.Endpoint]. Afterwards there are connections, and a fresh server is loaded.
func (c *Client) Prepare(uint64) {
	begin := clock.Now()
	c.sample, c.backlog, c.tcp = traffic.Sample{}, 0, sock.TCPInfo{}
	c.recorders.Reset()
	if c.spec.Schedule != nil {
		c.spec.Schedule.Begin(c.trials)
	}
	c.trials++
	c.trouble = trouble{head: c.trouble.head}
	c.bad = 0
	if !c.broken && !c.spec.Fresh && !c.spec.Renew && c.watcher.Wait(0) == 0 {
		return // otherwise a connection is over, or data has arrived that belongs to no trial
	}
	c.drop()
	deadline := begin + int64(prepareLimit)
	if err := netns.Here(int(c.home.Fd()), func() error { return c.connect(deadline) }); err != nil {
		c.sample.Failure = err.Error()
		c.drop()
		return
	}
	c.broken = false
	if c.spec.Loads > 0 && !c.load(deadline) {
		c.sample.Failure = c.words("the server could not be filled")
		c.drop()
	} else if c.renew {
		c.drop()
		c.broken = false
	}
	c.sample, c.backlog = traffic.Sample{Failure: c.sample.Failure}, 0
}

// load sends the first requests to a fresh server, on persistent connections, and reports whether all succeeded.
func (c *Client) load(deadline int64) bool {
	renew := c.renew
	c.renew = false
	defer func() { c.renew = renew }()
	c.begin(&c.spec.Load, nil, c.spec.Loads, c.lasting(), deadline)
	c.depth = loadDepth
	if c.drive(traffic.Window{Open: clock.Now(), Start: never, Close: deadline}) && c.number == c.spec.Loads &&
		c.bad == 0 {
		return true
	}
	if c.trouble.what == none && c.bad == 0 {
		c.trouble.what = overdue
	}
	return false
}

// lasting returns the number of connections to make before a trial. If connections do not persist, one shows that the
// server listens.
func (c *Client) lasting() int {
	if c.spec.Renew {
		return 1
	}
	return len(c.conns)
}

// Run implements [traffic.Endpoint]. If connections are made during the trial, the thread is in the container's
// namespace meanwhile. It enters before the window opens; only that allocates memory.
func (c *Client) Run(_ uint64, w traffic.Window) {
	if c.broken || c.sample.Failure != "" {
		return
	}
	if !c.renew {
		c.trial(w)
		return
	}
	if err := netns.Here(int(c.home.Fd()), func() error {
		c.trial(w)
		return nil
	}); err != nil {
		c.sample.Failure = err.Error()
	}
}

func (c *Client) trial(w traffic.Window) {
	c.begin(&c.spec.Asks, c.spec.Schedule, math.MaxUint64, len(c.conns), w.Close+limit)
	ok := c.drive(w)
	if c.schedule != nil {
		c.sample.Unsent = c.schedule.Unsent(c.number, w.Open, w)
	} else if !ok {
		c.unanswered(w)
	}
	if ok && c.spec.Farewell != nil {
		total := c.sample.Total
		c.begin(&c.farewell, nil, 1, 1, w.Close+limit)
		ok = c.drive(traffic.Window{Open: w.Close, Start: never, Close: w.Close + limit})
		c.sample.Total = total
	}
	if ok {
		return
	}
	if clock.Now() >= w.Close && c.trouble.what != alien { // from now on, a failure is only a failed drain
		c.sample.Doubt = undrained
		c.trouble.what = none
	}
	c.broken = true // the connections end in Collect, or in the next Prepare
}

// unanswered counts the requests of a closed loop whose answers did not arrive.
func (c *Client) unanswered(w traffic.Window) {
	for i := range c.conns {
		p := &c.conns[i]
		for n := p.first; n < p.next; n++ {
			if p.asked[n&uint64(len(p.asked)-1)].sent >= w.Start {
				c.sample.Sent++
			}
		}
	}
}

// begin prepares the requests of the loop.
func (c *Client) begin(a *Asks, schedule *traffic.Schedule, stop uint64, lanes int, deadline int64) {
	c.asks, c.schedule, c.stop, c.lanes, c.deadline = a, schedule, stop, lanes, deadline
	c.depth, c.number, c.ahead, c.waiting = uint64(c.spec.Pipeline), 0, 0, 0
	c.idle.from, c.idle.have = 0, 0
	for i := range c.conns {
		p := &c.conns[i]
		p.first, p.next, p.sending, p.at, p.left, p.kept = 0, 0, 0, 0, 0, 0
		p.queued = schedule != nil
		if p.queued {
			c.idle.push(i)
		}
	}
}

// Collect implements [traffic.Collector]. It describes the errors that the loop has recorded.
func (c *Client) Collect() {
	c.sample.Count(traffic.CountBacklog, c.backlog)
	if c.sample.Failure == "" && c.sample.Span > 0 {
		switch {
		case c.trouble.what != none:
			c.sample.Failure = c.words("")
		case c.sample.Sent == 0 && (c.spec.Schedule != nil || c.sample.Doubt == undrained):
			c.sample.Failure = "no request was sent inside the window"
		case c.sample.Received+c.sample.Errors == 0:
			c.sample.Failure = "no response arrived"
		case c.sample.Received == 0:
			c.sample.Failure = "all responses are errors: " + c.explain()
		case c.bad > 0 && c.sample.Doubt == "":
			c.sample.Doubt = "some responses are errors (look for the cause with nettoll lab up): " + c.explain()
		}
		c.trouble.what = none
	}
	if c.broken || c.spec.Renew { // the kernel's counters are gone with the connections
		c.drop()
		return
	}
	if c.tcp.Connections > 0 {
		return // this trial was already collected
	}
	for i := range c.conns {
		if !count(c.conns[i].Socket, &c.conns[i].counted, &c.tcp) {
			break
		}
	}
	put(&c.sample, c.tcp)
}

// CountConnections is the number of connections for which [traffic.CountResent] is known; 0 if the kernel did not
// report it for all of them.
const CountConnections traffic.Count = "connections"

// count adds to a sum the kernel's counters of a connection since the last call. If the kernel does not report them, it
// returns false, and nothing is known about any connection.
func count(s sock.Socket, last, sum *sock.TCPInfo) bool {
	info, err := s.TCPInfo()
	if err != nil {
		*sum = sock.TCPInfo{}
		return false
	}
	sum.Add(info.Since(*last))
	*last = info
	return true
}

// put sets the kernel's counters.
func put(s *traffic.Sample, tcp sock.TCPInfo) {
	s.Count(CountConnections, int64(tcp.Connections))
	s.Count(traffic.CountResent, tcp.Resent)
}

// words describes the error.
func (c *Client) words(prefix string) string {
	t := &c.trouble
	text := ""
	switch t.what {
	case none:
		if c.bad > 0 {
			text = c.explain()
		}
	case closed:
		text = "the server closed a connection"
		if t.inside {
			text += " in the middle of a response"
		}
	case broke:
		text = "a connection broke: " + t.errno.Error()
	case alien:
		text = "invalid response: " + c.explain()
	case strange, hasty, long:
		text = "invalid response: " + map[mishap]string{strange: unasked, hasty: unsent, long: endless}[t.what]
	case noSocket:
		text = "open a socket: " + t.errno.Error()
		if sock.OutOfDescriptors(t.errno) {
			text += " (hint: raise the limit of open files, ulimit -n)"
		}
	case noConnection:
		text = fmt.Sprintf("connect to %s: %v", c.spec.Remote, t.errno)
	case noPort:
		text = fmt.Sprintf("connect to %s: %s", c.spec.Remote, portless)
	case overdue:
		text = fmt.Sprintf("it took longer than %v", prepareLimit)
	}
	if prefix != "" {
		return prefix + ": " + text
	}
	return text
}

// explain describes an answer.
func (c *Client) explain() string {
	const quoted = 80 // bytes
	head := c.trouble.head[:c.trouble.size]
	if c.asks != nil && c.asks.Explain != nil {
		if text := c.asks.Explain(c.trouble.number, head); text != "" {
			return text
		}
	}
	return fmt.Sprintf("%q", head[:min(len(head), quoted)])
}

// connect makes all connections at the same time. The calling thread must be in the container's namespace.
func (c *Client) connect(deadline int64) error {
	if c.spec.Renew && !c.spec.Fresh {
		return nil
	}
	for {
		err := c.establishAll(deadline)
		if err == nil {
			return nil
		}
		c.drop()
		if errors.Is(err, sock.AddressUnavailable) {
			err = errors.New(portless)
		}
		if !c.spec.Fresh || !errors.Is(err, sock.Refused) || clock.Now() > deadline-int64(lastTry) {
			return fmt.Errorf("no connection: connect to %s: %w", c.spec.Remote, err)
		}
		time.Sleep(again)
	}
}

// establishAll makes all connections. One that is not there in time is tried once more, and again, beside the tries
// before: a packet of theirs may be lost, which the kernel repeats after a second, when the trial has failed, or may be
// still on its way. The try that comes first is the connection.
func (c *Client) establishAll(deadline int64) error {
	missing := c.lasting()
	for i := range missing {
		if err := c.call(i); err != nil {
			return err
		}
	}
	before := map[int][]sock.Socket{} // tries, by connection
	defer func() {
		for _, list := range before {
			abort(list)
		}
	}()
	for lost, next := int64(lostAfter), clock.Now()+int64(lostAfter); missing > 0; {
		if now := clock.Now(); now > deadline {
			return fmt.Errorf("%d of %d connections were not established within %v", missing, c.lasting(), prepareLimit)
		}
		ready := c.watcher.Wait(patience)
		for k := range ready {
			i, _, _ := c.watcher.Event(k)
			p := &c.conns[i]
			if p.state != connecting {
				continue
			}
			tries := append(before[i], p.Socket)
			for j, one := range tries {
				switch errno := one.ConnectTo(&c.remote); errno {
				case 0, sock.Connected:
				case sock.Connecting, sock.StillConnecting, sock.Interrupted:
					continue
				default:
					return errno
				}
				abort(slices.Delete(tries, j, j+1))
				delete(before, i)
				p.Socket, p.state, p.full = one, open, false
				c.watcher.Output(i, p.Socket, false)
				missing--
				break
			}
		}
		now := clock.Now()
		if ready > 0 || now < next {
			continue
		}
		lost *= 2
		next = now + lost
		for i := range c.lasting() {
			p := &c.conns[i]
			if p.state != connecting {
				continue
			}
			last := p.Socket
			switch err := c.call(i); {
			case err == nil:
				before[i] = append(before[i], last)
			case errors.Is(err, sock.AddressUnavailable), sock.OutOfDescriptors(err): // those before go on
				p.Abort()
				p.Socket = last
			default:
				before[i] = append(before[i], last)
				return err
			}
		}
	}
	return nil
}

func abort(list []sock.Socket) {
	for _, s := range list {
		s.Abort()
	}
}

// call begins to make a connection.
func (c *Client) call(i int) error {
	p := &c.conns[i]
	var errno sock.Errno
	if p.Socket, errno = c.maker.Make(0); errno != 0 {
		if sock.OutOfDescriptors(errno) {
			return fmt.Errorf("connection %d of %d: %w (hint: raise the limit of open files, ulimit -n)", i+1, c.lasting(),
				errno)
		}
		return errno
	}
	p.state, p.full, p.counted = connecting, true, sock.TCPInfo{}
	if errno = p.ConnectTo(&c.remote); errno != 0 && errno != sock.Connecting {
		return errno
	}
	return c.watcher.Add(i, p.Socket, true)
}
