package traffic

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
)

const (
	limit = int64(DrainLimit) // ns: an answer that arrives later than this after the close is lost,

	// and so is one that arrives later than this after its request, in ns: at least as long as TCP waits (TCP_RTO_MIN,
	// include/net/tcp.h). If hundreds of threads share a CPU, many answers take longer than a drain.
	answerLimit = 200_000_000

	// looksPerClock is how many times a spinning loop checks the socket before it reads the clock.
	looksPerClock = 64

	// Patience is the longest time that recv blocks, two ticks at HZ=250: a loss is noticed at most that much later,
	// plus a tick.
	Patience = 8 * time.Millisecond

	// nap is the shortest time to the next request for which the source sleeps, in ns, and how much earlier than due
	// that sleep ends. Timers expire late (the slack of a thread's timers is 50 µs, prctl(2)).
	nap = 150_000

	// markerEvery is how long to wait for the answer to an end marker before the next one is sent, in ns. A sink that
	// is behind first has to answer everything in its buffer.
	markerEvery = 2_000_000

	// stragglers is how long to wait for answers that arrive after the answer to the end marker, in ns.
	stragglers = 1_000_000

	// asked is the largest number of requests in flight: a power of two. An answer to an older request is late.
	asked = 1 << 16
)

// MarkerLost is the message of a side that waited without success for the end marker, or for its answer.
const MarkerLost = "the end marker was lost: lower the rate if that is often so"

// Exchange is the source's side of requests and answers in datagrams: with one in flight, with several in flight, or on
// a [Schedule], whatever is in flight. The thread of its pair drives it. It does not allocate once it is open.
//
// A request has nettoll's header, with its number, at OutAt, and its answer has the same header at InAt. Latency is the
// time to the answer from when a request was due, if there is a schedule, and otherwise from when it was sent. A
// request is inside the window if that time is.
//
// Without a schedule, the source sleeps in recv(2), like an application, or never if it spins. On a schedule, it sleeps
// until about 150 µs before the next request is due, or until an answer arrives, and then checks the clock and the
// socket in turn: above about 3000 requests a second it never sleeps.
type Exchange struct {
	Flows     []sock.Socket // used in turn; all are connected, with a timeout of Patience
	Fresh     bool          // each trial uses only one of Flows, the next trial the next one
	Out, In   []byte        // the longest request; room for the longest answer
	OutAt     int           // offset of the header in a request
	InAt      int           // offset of the header in a received answer
	Echo      Echo          // whether and how requests are ICMP echo requests
	Codec     Codec         // for another protocol, without room for a header; nil: none
	Spin      bool          // poll instead of sleeping
	Compact   bool          // requests and answers are too short for a header: see compact
	Stamped   bool          // with timestamps, one in flight: see stamp
	Unmarked  bool          // no receiver waits for an end marker
	InFlight  int           // 0 means 1
	Schedule  *Schedule     // nil: as soon as there is an answer
	Sample    Sample
	Recorders Recorders

	dither  Dither // if it spins, with one in flight
	rest    uint32 // see [Echo.rest]
	flow    int    // number of the flow in use
	several sock.Several
	many    bool // several flows in one trial
	trials  uint64

	// state of one trial
	trial   uint64
	window  Window
	refused sock.Errno // why a request was not sent, or did not arrive, most recently
	heard   bool       // an answer arrived, inside the window or before it
	ended   bool       // the end marker has been answered
	apart   uint64     // requests below this number are recorded separately
	wrong   bool       // the last answer reports a failure
	first   int64      // CountFirst
	backlog int64      // CountBacklog
	flying  int        // requests without an answer
	asked   []request  // by number, modulo the length of the slice
	oldest  uint64     // no request below this number is in flight
	base    uint64     // marks of this trial are above this number, those of earlier trials are not

	// state of an exchange with timestamps
	offset  int64 // ns from monotonic to real time
	came    int64 // ns of real time: when the kernel received the last datagram
	stamped stampedTrip
}

// A Codec writes and reads the messages of a protocol that does not know trials. Both methods are called in the loop:
// they do not allocate and are nosplit. (Function values would be called through functions that the compiler makes,
// which have a stack check.)
type Codec interface {
	// Put writes the request with a number, or for [Marker] the request that ends the trial, and returns its length.
	Put(out []byte, seq uint64) int
	// Read returns the number of the request that a message answers, whether it answers a request of this trial, and
	// whether its content is right.
	Read(in []byte) (seq uint64, answers, right bool)
}

// request is an unanswered request.
type request struct {
	mark      uint64 // its number plus one, above the trial's base; 0: it is not waiting
	due, sent int64
}

// Init prepares the exchange for its first trial. If it fails, the caller still owns the sockets; otherwise
// [Exchange.Close] closes them.
func (e *Exchange) Init() error {
	e.rest = e.Echo.rest(e.Out)
	e.Recorders[Latency] = NewRecorder()
	if e.Schedule != nil {
		e.Recorders[Service], e.Recorders[Departure] = NewRecorder(), NewRecorder()
	}
	if e.Schedule != nil || e.InFlight > 1 {
		e.asked = make([]request, asked)
	}
	if e.Stamped {
		e.Recorders[SenderStack], e.Recorders[Wire], e.Recorders[ReceiverStack] = NewRecorder(), NewRecorder(), NewRecorder()
	}
	if e.Fresh {
		e.apart = 1
		e.flow = len(e.Flows) - 1
	}
	if len(e.Flows) > 1 && !e.Fresh {
		var err error
		if e.several, err = sock.NewSeveral(e.Flows); err != nil {
			return err
		}
		e.many = true
	}
	return nil
}

// Prepare discards what an earlier trial left in the sockets.
func (e *Exchange) Prepare(trial uint64) {
	e.Sample, e.first, e.backlog = Sample{}, 0, 0
	e.Recorders.Reset()
	if e.Schedule != nil {
		e.Schedule.Begin(e.trials)
	}
	if e.Fresh {
		e.flow = (e.flow + 1) % len(e.Flows)
	}
	e.trials++
	e.trial, e.ended, e.heard, e.flying, e.oldest, e.refused = trial, e.Unmarked, false, 0, 0, 0
	e.base = e.trials << 40
	if e.Stamped {
		e.offset, e.stamped.seq = sock.RealtimeOffset(), NoStamps
		e.Flows[e.flow].Departed(0)
	}
	for i, flow := range e.Flows {
		if !e.Fresh || i == e.flow {
			e.Sample.Late += flow.Drain()
		}
	}
	if e.Spin && e.Schedule == nil && e.InFlight <= 1 {
		e.dither.Measure(func() {
			_, errno := e.receive(sock.DontWait)
			if errno == 0 {
				e.Sample.Late++
			}
			e.note(errno)
		})
	}
}

// Collect implements [Collector]. A source that has sent nothing, or received no answer, has no figures.
func (e *Exchange) Collect() {
	e.Sample.Count(CountFirst, e.first)
	e.Sample.Count(CountBacklog, e.backlog)
	switch {
	case e.Sample.Failure != "" || e.first > 0 || e.Sample.Received > 0:
		return
	case e.Sample.Errors > 0:
		e.Sample.Failure = "all answers report a failure or have wrong content"
	case e.Sample.Sent == 0 && (e.heard || e.Sample.Total == 0):
		e.Sample.Failure = "no request was sent inside the window"
	default:
		e.Sample.Failure = "no answer arrived"
	}
	if e.refused != 0 {
		e.Sample.Failure += ": " + e.refused.Error()
	}
}

// Close closes the sockets.
func (e *Exchange) Close() {
	for _, s := range e.Flows {
		s.Close()
	}
	if e.many {
		e.several.Close()
	}
}

// Run drives a trial.
func (e *Exchange) Run(w Window) {
	e.window = w
	switch {
	case e.Schedule != nil:
		next := e.paced()
		e.Sample.Unsent = e.Schedule.Unsent(next, w.Open, w)
	case e.InFlight > 1:
		e.flight()
	default:
		e.single()
	}
	e.end()
	if e.Fresh && e.first == 0 && e.Sample.Total > 0 && e.Sample.Doubt == "" {
		e.Sample.Doubt = "the first packet of a flow was lost: lower the rate or the number of pairs if that is often so"
	}
}

// ForgetFirst leaves out the first packet of the last trial, because its flow was already known.
func (e *Exchange) ForgetFirst() { e.first = 0 }

// single sends a request, waits for its answer, and repeats that. The end of one round trip is the start of the next,
// so each takes one clock read.
func (e *Exchange) single() {
	w := e.window
	var seq uint64
	sent := w.Open
	for sent < w.Close {
		now, ok := e.trip(seq, sent)
		e.Sample.Total++
		switch {
		case seq < e.apart && ok:
			e.first = now - sent
		case seq < e.apart:
		case sent >= w.Start:
			e.Sample.Sent++
			switch {
			case ok && e.wrong:
				e.Sample.Errors++
			case ok:
				e.Sample.Received++
				e.Recorders[Latency].Record(now - sent)
			}
		}
		if e.Stamped {
			e.stamp(seq, sent, now, ok)
			now = clock.Now()
		}
		seq++
		sent = now
	}
	if e.Stamped {
		e.doubtStamps()
	}
}

// trip sends one request and waits for its answer. It returns the time, and whether the answer arrived. (The functions
// of the loop are nosplit: without a stack check, there is no point at which the Go scheduler could take the thread.)
//
//go:nosplit
func (e *Exchange) trip(seq uint64, sent int64) (int64, bool) {
	e.turn()
	giveUp := min(sent+answerLimit, e.window.Close+limit)
	for !e.send(seq, 0, len(e.Out)) { // nobody needs its time
		if now := clock.Now(); now > giveUp {
			return now, false
		}
	}
	flags := 0
	if e.Spin {
		flags = sock.DontWait
		e.dither.Wait()
	}
	for looks := 1; ; looks++ {
		n, errno := e.receive(flags)
		if errno == 0 {
			if e.answers(n, seq) {
				e.heard = true
				return clock.Now(), true
			}
			e.Sample.Late++
		}
		e.note(errno)
		// An answer counts as lost when the time is up. If the source sleeps, the kernel reports that with EAGAIN; if
		// it spins, or if stray datagrams keep arriving, the clock shows it.
		if !e.Spin || looks%looksPerClock == 0 {
			if now := clock.Now(); now > giveUp {
				return now, false
			}
		}
	}
}

// receive receives a datagram on the flow in use.
//
//go:nosplit
func (e *Exchange) receive(flags int) (int, sock.Errno) {
	s := e.Flows[e.flow]
	if e.Stamped {
		return s.RecvStamped(&e.In[0], len(e.In), flags, &e.came)
	}
	return s.Recv(&e.In[0], len(e.In), flags)
}

// turn switches to the next flow.
//
//go:nosplit
func (e *Exchange) turn() {
	if e.many {
		if e.flow++; e.flow == len(e.Flows) {
			e.flow = 0
		}
	}
}

// send sends one request of size bytes.
//
//go:nosplit
func (e *Exchange) send(seq uint64, since int64, size int) bool {
	switch {
	case e.Compact:
		e.Out[0] = e.compact(seq)
	case e.Codec != nil:
		size = e.Codec.Put(e.Out, seq)
	default:
		PutHeader((*[HeaderSize]byte)(e.Out[e.OutAt:]), e.trial, seq, since)
		e.Echo.finish(e.Out, seq, e.rest)
	}
	_, errno := e.Flows[e.flow].Send(&e.Out[0], size, 0)
	e.note(errno)
	return errno == 0
}

// answers reports whether the n received bytes are the answer to a request of this trial.
//
//go:nosplit
func (e *Exchange) answers(n int, seq uint64) bool {
	if e.Compact {
		return n > 0 && e.In[0] == e.compact(seq)
	}
	trial, got, ok := e.header(n)
	return ok && trial == e.trial && got == seq
}

// header reads the header of the n received bytes.
//
//go:nosplit
func (e *Exchange) header(n int) (trial, seq uint64, ok bool) {
	if e.Codec != nil {
		seq, ok, right := e.Codec.Read(e.In[:n])
		e.wrong = !right
		return e.trial, seq, ok
	}
	if n < e.InAt+HeaderSize {
		return 0, 0, false
	}
	trial, seq, _ = Header((*[HeaderSize]byte)(e.In[e.InAt:]))
	return trial, seq, true
}

// CompactMarker is the end marker if datagrams are too short for a header.
const CompactMarker = 255

// compact returns the only significant byte of datagrams that are too short for a header. It counts from 0 to 254 and
// wraps, from another start in each trial, so that data of an earlier trial is rarely taken for an answer. 255 is the
// end marker.
//
//go:nosplit
func (e *Exchange) compact(seq uint64) byte {
	if seq == Marker {
		return CompactMarker
	}
	return byte((e.trial*97 + seq) % CompactMarker)
}

// look receives a datagram from any flow, if there is one.
//
//go:nosplit
func (e *Exchange) look() (int, sock.Errno) {
	flow := e.flow
	if e.many {
		if flow = e.several.Next(); flow < 0 {
			return 0, sock.Again
		}
	}
	n, errno := e.Flows[flow].Recv(&e.In[0], len(e.In), sock.DontWait)
	e.note(errno)
	return n, errno
}

// note records the error of a call, unless the call only needs to be repeated.
//
//go:nosplit
func (e *Exchange) note(errno sock.Errno) {
	if errno != 0 && errno != sock.Again && errno != sock.Interrupted {
		e.refused = errno
	}
}

// sleep sleeps until there is something to receive, for at most this many nanoseconds. If the source spins, it does not
// sleep.
//
//go:nosplit
func (e *Exchange) sleep(ns int64) {
	switch {
	case e.Spin || ns <= 0:
	case e.many:
		e.several.Wait(ns)
	default:
		e.Flows[e.flow].WaitRecv(ns)
	}
}

// end sends the end marker until the sink has answered it, and takes the answers that arrive before that, for as long
// as a drain may take.
//
//go:nosplit
func (e *Exchange) end() {
	start := clock.Now()
	next, giveUp := start, start+limit
	size := 1
	if !e.Compact {
		size = e.OutAt + HeaderSize
	}
	number := int64(0)
	for now := start; now < giveUp; now = clock.Now() {
		if e.ended && e.flying == 0 {
			return
		}
		if !e.ended && now >= next {
			e.send(Marker, number, size) // if it cannot be sent, the next one may be
			number++
			next = now + markerEvery
		}
		n, errno := e.look()
		switch {
		case errno != 0 && e.ended:
			e.sleep(giveUp - now)
		case errno != 0:
			e.sleep(min(next, giveUp) - now)
		case !e.ended && e.answers(n, Marker):
			e.ended = true
			giveUp = min(giveUp, clock.Now()+stragglers)
		default:
			e.take(n)
		}
	}
	if !e.ended {
		e.Sample.Doubt = MarkerLost
	}
}
