package flows

import (
	"fmt"
	"sync"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// DatagramHead is the least length of a datagram, in bytes.
	DatagramHead = traffic.HeaderSize
	// StreamHead is the least length of a message on a stream, in bytes.
	StreamHead = traffic.HeaderSize + lengthSize

	lengthSize = 4 // bytes: the length of a message on a stream, little endian, its head included

	limit = int64(traffic.DrainLimit) // ns: messages that arrive later than this after the close are lost

	// nap is the longest time before a message is due at which the thread's sleep ends, in ns, because a CPU takes time
	// to wake up. It is limited to one napShare-th of the remaining time, so that a thread with many messages does not
	// keep its CPU busy between them.
	nap      = 150_000
	napShare = 4

	// shortest is the shortest sleep, in ns: falling asleep and waking up take as long.
	shortest = 20_000

	// markerEvery is how long to wait for the answer to an end marker of datagrams before the next one is sent, in ns.
	markerEvery = 2_000_000

	// turn is the number of messages that are sent before the thread receives again.
	turn = 64

	readSize = 64 << 10 // bytes that one call takes from a stream

	marker = traffic.Marker     // as number: the trial is over; on a stream, the time field holds the number of messages
	answer = traffic.Marker - 1 // as number: the marker has arrived, with what it has to wait for
)

// A Lane sends messages on a schedule. Its Count flows from First on take them in turn, or each flow is one of as many
// senders of the schedule. A flow has at most one lane.
type Lane struct {
	Schedule     *traffic.Schedule
	First, Count int

	next  uint64 // number of the first message that is not due, or not checked yet
	ahead uint64 // messages below this number are due
	due   int64  // ns of the clock: when the next one is
	turn  int    // the flow of the lane that sends it
}

// A Message is a received message.
type Message struct {
	Flow int
	Seq  uint64 // its number on its flow, from 0
	Size int    // bytes
	Due  int64  // ns since the sender's opening
	Came int64  // ns since the receiver's
}

// A Hearer handles messages. (It is an interface instead of a function for the same reason as dialogue.Asker.)
type Hearer interface {
	// Heard is called in the hot loop: it does not allocate or block, and is nosplit.
	Heard(m *Message)
}

// An End is one side of the flows of a pair, for one workload. It is a [traffic.Endpoint], a [traffic.Collector] and,
// with streams, has a Ready method as in workload.Readier. Set the exported fields before [End.Init]; flows are
// numbered by their position in Sockets. Nothing allocates during a trial.
//
// From one message to the next, it sleeps except for the last quarter of the time, or the last 150 µs; then it checks
// clock and sockets in turn. Above about 40,000 messages a second on all lanes, it never sleeps. An end that only hears
// sleeps until something arrives.
type End struct {
	// Sockets has one socket for each flow: of [Datagrams], or nil if there are Streams.
	Sockets []sock.Socket
	// Streams are connections (see [Call], [Listen]) instead of datagrams.
	Streams *Streams
	// Out are the lanes that it sends.
	Out []Lane
	// Hears says that the other end sends messages.
	Hears bool
	// Longest is the length of the longest message in bytes, in either direction.
	Longest int
	// FirstApart records the first message of each flow in a trial separately: [traffic.CountFirst], the mean over
	// flows.
	FirstApart bool
	// OwnClock says that the other end has another clock, so that one-way times cannot be measured. Jitter, loss and
	// rates are not affected.
	OwnClock bool
	// Hearer receives each message of the trial, including those before the window. nil: there is none.
	Hearer Hearer
	// StallEvery and StallFor make an end stand still before it receives (study only); 0: never.
	StallEvery, StallFor int64

	sample    traffic.Sample
	counts    counts
	recorders traffic.Recorders
	watcher   *sock.Watcher
	sockets   []sock.Socket
	flows     []flow
	counters  []traffic.Counter // of datagrams
	lanes     []*Lane           // those with a next message, as a heap: the earliest is first
	out, in   []byte
	trials    uint64
	sweep     sync.Mutex // held while sockets are closed
	gone      bool       // they are closed
	message   Message    // for the Hearer

	// State of one trial.
	trial     uint64
	window    traffic.Window
	start     int64 // ns since the opening: start of the window
	inside    int64 // messages due inside the window that were sent
	waiting   int64 // messages that are due but not sent
	sent      int64 // of the whole trial
	heard     int64
	firsts    int64 // flows whose first message was recorded separately
	closing   bool  // only started messages and markers are still sent
	markerAt  int64 // when to send the next marker
	markers   int64 // number of markers sent
	answered  int   // number of answered markers
	ended     int   // number of received markers
	told      int64 // for streams: the number of messages in the marker; -1: it has not arrived
	toldOn    int   // the flow of the marker
	broken    int   // number of broken connections
	refused   sock.Errno
	undrained bool
}

// flow is the state of one flow.
type flow struct {
	lane *Lane // the lane for which it sends; nil: it sends nothing

	// Sending.
	next    uint64 // number of its next message
	seq     uint64 // of the message in progress
	since   int64  // when that message was due, ns since the opening
	size    int    // its length in bytes; 0: none is in progress
	at      int    // bytes of it that were sent
	blocked bool   // there was no room; wait for room
	over    bool   // its marker was answered

	// Receiving.
	head    [StreamHead]byte // of a message, as far as it has arrived
	have    int              // bytes of it
	left    int              // missing bytes of the message
	transit int64            // of the last message: arrival minus due time, each since its opening
	known   bool             // transit is valid, inside the window
	ended   bool             // the marker has arrived

	broken bool // in this trial
	dead   bool // there is no connection
}

// Init prepares an end for its first trial. It takes ownership of the sockets: if it fails, it has closed them.
func (e *End) Init() (err error) {
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	e.sockets = e.Sockets
	if e.Streams != nil {
		e.sockets = e.Streams.sockets
	}
	if e.watcher, err = sock.NewWatcher(); err != nil {
		return err
	}
	e.flows = make([]flow, len(e.sockets))
	head, room := DatagramHead, max(e.Longest, DatagramHead)
	if e.Streams != nil {
		head, room = StreamHead, readSize
	} else {
		e.counters = make([]traffic.Counter, len(e.sockets))
	}
	e.in, e.out = traffic.Buffer(room), traffic.Payload(max(e.Longest, head))
	for i := range e.Out {
		l := &e.Out[i]
		if l.First < 0 || l.Count < 1 || l.First+l.Count > len(e.sockets) {
			return fmt.Errorf("lane of flows %d to %d, but there are only %d flows", l.First, l.First+l.Count-1, len(e.sockets))
		}
		if n := l.Schedule.Senders(); n > 0 && n != l.Count {
			return fmt.Errorf("lane of %d flows with a schedule of %d senders", l.Count, n)
		}
		for k := l.First; k < l.First+l.Count; k++ {
			e.flows[k].lane = l
		}
	}
	e.lanes = make([]*Lane, len(e.Out))
	if len(e.Out) > 0 {
		e.recorders[traffic.Departure] = traffic.NewRecorder()
	}
	if e.Hears && !e.OwnClock {
		e.recorders[traffic.OneWay] = traffic.NewRecorder()
	}
	for i, s := range e.sockets {
		if s.FD < 0 { // a connection that is not accepted yet
			e.flows[i].dead = true
			continue
		}
		if err := e.watcher.Add(i, s, false); err != nil {
			return err
		}
	}
	return nil
}

// Sample implements [traffic.Endpoint].
func (e *End) Sample() *traffic.Sample { return &e.sample }

// Recorders implements [traffic.Endpoint].
func (e *End) Recorders() traffic.Recorders { return e.recorders }

// Facts implements [traffic.Endpoint]. All sockets have the same facts.
func (e *End) Facts() (sock.Facts, error) { return e.sockets[0].Facts() }

// Flows returns the number of flows.
func (e *End) Flows() int { return len(e.sockets) }

// Close implements [traffic.Endpoint]. A thread that returns late finds no sockets, because their numbers may be in use
// again by then.
func (e *End) Close() {
	e.sweep.Lock()
	defer e.sweep.Unlock()
	if e.gone {
		return
	}
	e.gone = true
	for _, s := range e.Sockets {
		s.Close()
	}
	if e.Streams != nil {
		e.Streams.Close()
	}
	if e.watcher != nil {
		e.watcher.Close()
	}
}

// Prepare implements [traffic.Endpoint]. It discards data of an earlier trial, and replaces lost connections.
func (e *End) Prepare(trial uint64) {
	e.sample, e.counts = traffic.Sample{}, counts{}
	e.recorders.Reset()
	e.trial, e.told = trial, -1
	if e.Streams == nil {
		for _, s := range e.sockets {
			e.sample.Late += s.Drain()
		}
	} else {
		e.mend()
		e.counts.setup = e.Streams.setup
	}
	e.closing, e.undrained, e.refused = false, false, 0
	e.inside, e.waiting, e.sent, e.heard, e.firsts = 0, 0, 0, 0, 0
	e.markerAt, e.markers, e.answered, e.ended, e.broken = 0, 0, 0, 0, 0
	for i := range e.counters {
		e.counters[i].Reset()
	}
	for i := range e.flows {
		f := &e.flows[i]
		f.next, f.over, f.known, f.ended = 0, false, false, false
	}
	e.lanes = e.lanes[:0]
	for i := range e.Out {
		l := &e.Out[i]
		l.Schedule.Begin(e.trials)
		l.next, l.ahead, l.turn = 0, 0, 0
		l.due = l.Schedule.Due(0) // the opening is still to come
		e.add(l)
	}
	e.trials++
}

// Run implements [traffic.Endpoint].
func (e *End) Run(_ uint64, w traffic.Window) {
	e.window, e.start = w, w.Start-w.Open
	for i := range e.Out {
		e.Out[i].due += w.Open
	}
	if e.Streams != nil && len(e.Streams.listeners) > 0 {
		e.settle()
	}
	if e.sample.Failure == "" {
		thread.Punctual(true)
		e.drive()
		thread.Punctual(false)
	}
	due := int64(0)
	for i := range e.Out {
		s := e.Out[i].Schedule
		due += int64(s.Before(w.Close-w.Open)) - int64(s.Before(e.start))
	}
	e.sample.Sent, e.sample.Unsent, e.sample.Total = e.inside, max(0, due-e.inside), e.sent
	if len(e.Out) == 0 {
		e.sample.Total = e.heard
	}
	if e.firsts > 0 {
		e.counts.first /= e.firsts
	}
	if e.undrained {
		e.sample.Doubt = traffic.MarkerLost
		if e.Streams != nil {
			e.sample.Doubt = undrained
		}
	}
	e.cut()
}

// undrained is the message of a side whose streams were not drained.
const undrained = "not all messages arrived before the drain ended: the streams were reconnected: " +
	"lower the rate, or use fewer pairs"

// drive sends and receives until the trial is over. (The functions that it calls repeatedly are nosplit: without a
// stack check, there is no point at which the Go scheduler could take the thread. Functions that are called once a
// trial, or after an error, are not, because a stack of nosplit functions has a limited depth.)
func (e *End) drive() {
	giveUp := e.window.Close + limit
	for {
		now := clock.Now()
		next := giveUp
		switch {
		case now < e.window.Close && len(e.Out) > 0:
			next = e.keepUp(now)
		case now < e.window.Close: // the other end may close sooner
			if e.complete() {
				return
			}
		default:
			e.closing = true
			if e.complete() {
				return
			}
			if now >= giveUp {
				e.undrained = true
				return
			}
			next = min(giveUp, e.mark(now))
		}
		// If nothing has arrived, it sleeps until shortly before a message is due, or until there is other work.
		wait := next - now
		if !e.closing && len(e.Out) > 0 && next < e.window.Close {
			if wait -= min(nap, wait/napShare); wait < shortest {
				wait = 0
			}
		}
		n := e.watcher.Wait(max(wait, 0))
		if n > 0 && e.StallEvery > 0 {
			e.stand()
		}
		for k := range n {
			i, read, write := e.watcher.Event(k)
			if write && e.flows[i].blocked {
				e.resume(i)
			}
			switch {
			case !read:
			case e.Streams != nil:
				e.takeStream(i)
			default:
				e.take(i)
			}
		}
	}
}

// complete reports whether nothing more has to be received or sent.
//
//go:nosplit
func (e *End) complete() bool {
	if len(e.Out) > 0 && (!e.closing || e.answered < e.asks()) {
		return false
	}
	if !e.Hears {
		return true
	}
	if e.Streams != nil {
		return e.told >= 0 && e.heard >= e.told
	}
	return e.ended == len(e.flows)
}

// asks returns the number of expected answers to markers.
//
//go:nosplit
func (e *End) asks() int {
	if e.Streams != nil {
		return 1
	}
	return len(e.flows)
}

// stand stands still for the rest of a stall.
//
//go:nosplit
func (e *End) stand() {
	for (clock.Now()-e.window.Open)%e.StallEvery < e.StallFor {
	}
}

// Collect implements [traffic.Collector].
func (e *End) Collect() {
	e.counts.put(&e.sample)
	if e.Streams != nil {
		e.counts.resent += e.Streams.counted()
		e.sample.Count(traffic.CountResent, e.counts.resent)
	}
	switch {
	case e.sample.Failure != "":
	case e.broken > 0:
		e.sample.Failure = fmt.Sprintf("%d of %d connections broke", e.broken, len(e.flows))
		if e.refused != 0 {
			e.sample.Failure += ": " + e.refused.Error()
		}
	case len(e.Out) > 0 && e.sample.Sent == 0:
		e.sample.Failure = "no message was sent inside the window"
		if e.refused != 0 {
			e.sample.Failure += ": " + e.refused.Error()
		}
	}
}
