package dialogue

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"os"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// ClientSpec is all that a client needs to know.
type ClientSpec struct {
	Local, Remote netip.AddrPort // of Local the address: the ports of connections are the kernel's choice
	Options       sock.Options   // NoDelay is set in any case
	Connections   int
	Pipeline      int               // requests in flight on a connection, at most; 0: 1
	Schedule      *traffic.Schedule // when requests are due; nil: the loop is closed. Its sizes mean nothing here
	Asks          Asks

	// Renew makes a connection for each request: made when the request is due, or when the one before is over, and timed
	// (traffic.Connect). The server closes it after its answer, as HTTP's do (RFC 9112, section 9.6), so that the port is
	// free again at once; the client waits for that before the next request, and no latency counts it. Pipeline is 1.
	Renew bool

	// Fresh says that the server is another one in each trial: connections are made anew in each Prepare, which waits for
	// it to listen.
	Fresh bool

	// Load is what a fresh server is asked before its trial, in Prepare: so many requests, none of them timed, whose
	// answers all have to be Good.
	Load  Asks
	Loads uint64 // a server that lasts is loaded by its own side

	// Farewell, if set, is the request by which the server knows that the trial is over, when everything was answered: it
	// is for servers of our own. Its answer has Leave bytes, which are not judged.
	Farewell []byte
	Leave    int
}

const (
	limit = int64(traffic.DrainLimit) // ns: an answer that is not there by then after the close is not waited for

	// patience is how long a thread sleeps at most: less than the 10 ms after which the Go runtime sends a busy thread a
	// signal. In ns.
	patience = 8_000_000

	// early is how far off a request must be for the client to sleep, and how much earlier than it is due that ends, in
	// ns: timers come late (the slack of a thread's is 50 µs, prctl(2)).
	early = 150_000

	// prepareLimit is for how long a client connects and loads: it must be at the gate before the others have waited for a
	// second there (gateLimit in traffic/board.go). Its server listens after 700 ms at the latest (listenLimit in
	// traffic/program).
	prepareLimit = 900 * time.Millisecond

	// again is how long it waits before it connects again to a server that does not listen yet, and lastTry what it leaves
	// for that to come to something.
	again   = 2 * time.Millisecond
	lastTry = 20 * time.Millisecond

	// loadDepth is how many requests are in flight on a connection while a server is loaded.
	loadDepth = 16

	readSize = 128 << 10 // bytes of one recv
	gather   = 64 << 10  // bytes of requests that are sent in one call, where a connection has several to send

	never = math.MaxInt64
)

// What a sample says.
const (
	undrained = "not all responses arrived before the drain ended, and the connection is a new one: lower the rate " +
		"or in-flight if that is often so"
	unasked  = "it was not requested"
	unsent   = "it arrived before its request was sent"
	endless  = "its header does not contain its length"
	portless = "no free local port: all have a connection that has not ended (net.ipv4.ip_local_port_range)"
)

// Client is the source's end of a dialogue: a [traffic.Endpoint] and a [traffic.Collector]. Its samples hold of the
// requests inside the window: Sent, Received (answers that were Good) and Errors (those that were Bad).
//
// What the kernel has counted for the connections (CountConnections, [traffic.CountResent]) they hold only where these
// outlast the trial.
//
// On a schedule a request is inside the window if it was due there. In a closed loop it is if its answer came there, or
// was to come and did not: so the rate is right also where many large answers are on the way when the window closes,
// and need longer than a drain.
type Client struct {
	spec      ClientSpec
	home      *os.File // the container's namespace, where new sockets are made
	maker     *sock.Maker
	granted   sock.Facts
	remote    sock.Address
	watcher   *sock.Watcher
	farewell  Asks
	conns     []connection
	idle      queue // on a schedule: connections with room for a request, the longest idle first
	in, out   []byte
	recorders traffic.Recorders
	sample    traffic.Sample
	trials    uint64
	broken    bool
	backlog   int64        // [traffic.CountBacklog]
	tcp       sock.TCPInfo // what the kernel has counted for the connections in the last trial

	// Of one trial, or of what is asked before and after it.
	asks     *Asks
	schedule *traffic.Schedule
	renew    bool
	lanes    int    // connections in use
	depth    uint64 // requests in flight on each, at most
	start    int64  // ns: of its window
	number   uint64 // of the next request
	stop     uint64 // the first that is not to be asked
	now      int64  // ns: when something was received last
	ahead    uint64 // requests below this number are due
	waiting  int    // requests whose answer has not come, and connections that the server has to close
	deadline int64  // ns
	bad      int64  // answers
	trouble  trouble
}

// connection is one connection and its requests without an answer.
type connection struct {
	sock.Socket
	state       state
	begun       int64        // ns: when connecting began
	asked       []request    // by number on the connection, modulo its length
	first, next uint64       // numbers on the connection of the oldest of them and of the next one
	sending     uint64       // of the oldest that the socket has not taken all of
	at          int          // bytes of it that are sent
	left        int          // bytes of the oldest's answer that have not come
	verdict     Verdict      // on that
	head        []byte       // the beginning of an answer of unknown length
	kept        int          // bytes of it
	full        bool         // the socket took no more: it is watched for room
	queued      bool         // it is in the queue of idle ones
	counted     sock.TCPInfo // up to the last trial
}

// request is one whose answer has not come.
type request struct {
	number    uint64
	due, sent int64 // ns
	size      int   // bytes, when its sending has begun
}

type state int

const (
	shut       state = iota
	connecting       // connect(2) is under way
	open
	parting // all is answered: the server closes it
)

// trouble is what went wrong first, for Collect to say in words.
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
	strange // bytes that nobody asked for
	hasty   // before its request was sent
	long
	noSocket
	noConnection
	noPort
	overdue
)

// queue is a ring of connections' numbers.
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

// NewClient makes one, and no connection yet. The calling thread is inside the container's network namespace.
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

// open takes what has to be given back; where that fails nothing is left.
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
	options.NoDelay = true // a request that waits for the acknowledgement of the one before measures a timer (RFC 896)
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

// Facts implements [traffic.Endpoint]: all connections are alike.
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

// drop ends all connections.
func (c *Client) drop() {
	c.broken = true
	for i := range c.conns {
		if p := &c.conns[i]; p.state != shut {
			p.Abort()
			p.FD, p.state = -1, shut
		}
	}
}

// Prepare implements [traffic.Endpoint]: there are connections, and a fresh server knows what it has to.
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
		return // else a connection is over, or something has come that belongs to no trial
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

// load asks what a fresh server is to be asked first, on connections that last meanwhile, and says whether all of it
// came to good.
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

// lasting is how many connections are made before a trial: where they do not last one shows that the server listens.
func (c *Client) lasting() int {
	if c.spec.Renew {
		return 1
	}
	return len(c.conns)
}

// Run implements [traffic.Endpoint]. Where connections are made in a trial the thread is in the container's namespace
// meanwhile: it goes there before the window opens, and that is the only thing for which anything is allocated.
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
	if clock.Now() >= w.Close && c.trouble.what != alien { // what happens from now on is no more than a drain that failed
		c.sample.Doubt = undrained
		c.trouble.what = none
	}
	c.broken = true // the connections end in Collect, or in the next Prepare
}

// unanswered counts the requests of a closed loop whose answers did not come.
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

// begin sets up what the loop is to ask.
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

// Collect implements [traffic.Collector]: it says in words what the loop has noted.
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
	if c.broken || c.spec.Renew { // what the kernel has counted for connections is gone with them
		c.drop()
		return
	}
	if c.tcp.Connections > 0 {
		return // this trial was collected before
	}
	for i := range c.conns {
		if !count(c.conns[i].Socket, &c.conns[i].counted, &c.tcp) {
			break
		}
	}
	put(&c.sample, c.tcp)
}

// CountConnections is the connections that [traffic.CountResent] is known of; none if the kernel did not say it of all.
const CountConnections traffic.Count = "connections"

// count adds to a sum what the kernel has counted for a connection since it was last asked. If the kernel does not say,
// nothing is known of any.
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

// put notes what the kernel has counted.
func put(s *traffic.Sample, tcp sock.TCPInfo) {
	s.Count(CountConnections, int64(tcp.Connections))
	s.Count(traffic.CountResent, tcp.Resent)
}

// words says what has gone wrong.
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

// explain says what an answer says.
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

// connect makes all connections, at once. The calling thread is inside the container's namespace.
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

func (c *Client) establishAll(deadline int64) error {
	missing := c.lasting()
	for i := range missing {
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
		errno = p.ConnectTo(&c.remote)
		if errno != 0 && errno != sock.Connecting {
			return errno
		}
		if err := c.watcher.Add(i, p.Socket, true); err != nil {
			return err
		}
	}
	for missing > 0 {
		if clock.Now() > deadline {
			return fmt.Errorf("%d of %d connections were not established within %v", missing, c.lasting(), prepareLimit)
		}
		for k := range c.watcher.Wait(patience) {
			i, _, _ := c.watcher.Event(k)
			p := &c.conns[i]
			if p.state != connecting {
				continue
			}
			switch errno := p.ConnectTo(&c.remote); errno {
			case 0, sock.Connected:
				p.state, p.full = open, false
				c.watcher.Output(i, p.Socket, false)
				missing--
			case sock.Connecting, sock.StillConnecting, sock.Interrupted:
			default:
				return errno
			}
		}
	}
	return nil
}
