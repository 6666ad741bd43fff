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
	// DatagramHead is how many bytes a datagram has at least.
	DatagramHead = traffic.HeaderSize
	// StreamHead is how many bytes a message on a stream has at least.
	StreamHead = traffic.HeaderSize + lengthSize

	lengthSize = 4 // bytes: the length of a message on a stream, little endian, its head included

	limit = int64(traffic.DrainLimit) // ns: what has not come by then after the close is lost

	// nap is how much earlier than a message is due the thread's sleep ends at most, in ns, since a CPU takes its time to
	// wake. It is a share of the time that is left, one of napShare, so that a thread with many messages to send does not
	// keep its CPU busy between them.
	nap      = 150_000
	napShare = 4

	// shortest is how long it sleeps at least, in ns: falling asleep and waking take as much.
	shortest = 20_000

	// markerEvery is how long an end marker of datagrams waits for its answer before the next one is sent, in ns.
	markerEvery = 2_000_000

	// turn is how many messages are sent before the thread looks what has come.
	turn = 64

	readSize = 64 << 10 // bytes that one call takes from a stream

	marker = traffic.Marker     // as number: the trial is over; of a stream the time is how many messages there were
	answer = traffic.Marker - 1 // as number: the marker has come, and what it is to wait for
)

// A Lane is messages on a schedule: the flows from First on take them in turn, Count of them, or each is one of as many
// senders of the schedule. A flow has at most one lane.
type Lane struct {
	Schedule     *traffic.Schedule
	First, Count int

	next  uint64 // number of the first message that is not due, or was not looked at
	ahead uint64 // messages below this number are due
	due   int64  // ns of the clock: when the next one is
	turn  int    // which flow of it has that
}

// A Message is one that has come.
type Message struct {
	Flow int
	Seq  uint64 // its number on its flow, from 0
	Size int    // bytes
	Due  int64  // ns since the sender's opening
	Came int64  // ns since the receiver's
}

// A Hearer does something with messages. (It is an interface, and no function, for the reason that dialogue.Asker is.)
type Hearer interface {
	// Heard is called in the hot loop: it allocates nothing, does not block, and is nosplit.
	Heard(m *Message)
}

// An End is one side of the flows of a pair, for one workload. It is a [traffic.Endpoint], a [traffic.Collector] and,
// with streams, has a Ready method as workload.Readier asks for. The exported fields are set before [End.Init]; flows
// are called by their place in Sockets. Nothing allocates in a trial.
//
// From one message to the next it sleeps, all but the last quarter of the time, or the last 150 µs; then it asks clock
// and sockets in turn. At more than some 40,000 messages a second on all lanes it is never asleep. An end that only
// hears sleeps until something comes.
type End struct {
	// Sockets are one for each flow: of [Datagrams], or nil where there are Streams.
	Sockets []sock.Socket
	// Streams are connections (see [Call], [Listen]) in place of datagrams.
	Streams *Streams
	// Out are what it sends.
	Out []Lane
	// Hears says that the other end sends messages.
	Hears bool
	// Longest is how many bytes the longest message has, either way.
	Longest int
	// FirstApart times the first message of each flow in a trial apart from the others: [traffic.CountFirst], the mean
	// over flows.
	FirstApart bool
	// OwnClock says that the other end has another clock: what lies between both cannot be timed. Jitter, loss and rates
	// are as they are.
	OwnClock bool
	// Hearer is told of each message of the trial, those before the window included. nil: nobody.
	Hearer Hearer
	// StallEvery and StallFor make an end stand still before it takes what has come (study only); 0: never.
	StallEvery, StallFor int64

	sample    traffic.Sample
	counts    counts
	recorders traffic.Recorders
	watcher   *sock.Watcher
	sockets   []sock.Socket
	flows     []flow
	counters  []traffic.Counter // of datagrams
	lanes     []*Lane           // those with a next message, as a heap: the first is due first
	out, in   []byte
	trials    uint64
	sweep     sync.Mutex // held by what closes sockets
	gone      bool       // they are closed
	message   Message    // for the Hearer

	// Of one trial.
	trial     uint64
	window    traffic.Window
	start     int64 // ns since the opening: when the window begins
	inside    int64 // messages due inside the window that were sent
	waiting   int64 // messages that are due and were not sent
	sent      int64 // of the whole trial
	heard     int64
	firsts    int64 // flows whose first message was timed apart
	closing   bool  // nothing more is sent but what was begun, and markers
	markerAt  int64 // when the next marker is to be sent
	markers   int64 // how many were
	answered  int   // markers that were answered
	ended     int   // markers that have come
	told      int64 // of streams: how many messages there were, as the marker says; -1: it has not come
	toldOn    int   // on which flow
	broken    int   // connections
	refused   sock.Errno
	undrained bool
}

// flow is what is known of one flow.
type flow struct {
	lane *Lane // that it sends for; nil: it sends nothing

	// What it sends.
	next    uint64 // number of its next message
	seq     uint64 // of the one under way
	since   int64  // when that was due, ns since the opening
	size    int    // bytes of it; 0: none is under way
	at      int    // bytes of it that were sent
	blocked bool   // there was no room; it is watched for room
	over    bool   // its marker was answered

	// What comes.
	head    [StreamHead]byte // of a message, as far as it has come
	have    int              // bytes of it
	left    int              // bytes of the message that have not come
	transit int64            // of the last message: when it came less when it was due, each since its opening
	known   bool             // there is such a one, inside the window
	ended   bool             // the marker has come

	broken bool // in this trial
	dead   bool // there is no connection
}

// Init makes an end ready for its first trial. It takes the sockets over: where it fails it has closed them.
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
		if s.FD < 0 { // a connection that is still to be accepted
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

// Facts implements [traffic.Endpoint]. All sockets are alike.
func (e *End) Facts() (sock.Facts, error) { return e.sockets[0].Facts() }

// Flows returns how many there are.
func (e *End) Flows() int { return len(e.sockets) }

// Close implements [traffic.Endpoint]. A thread that comes back late finds no sockets: their numbers may be another's
// by then.
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

// Prepare implements [traffic.Endpoint]: it takes what an earlier trial has left, and makes connections anew that it
// has lost.
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

// undrained is what a side says whose streams were not drained.
const undrained = "not all messages arrived before the drain ended: the streams were reconnected: " +
	"lower the rate, or use fewer pairs"

// drive sends and hears until the trial is over. (The functions that it calls again and again are nosplit: without a
// stack check they hold no point at which the Go scheduler takes the thread. Those that are called once a trial, or
// where something is wrong, are not: a stack of nosplit functions may be no deeper.)
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
		// Where nothing has come it sleeps until shortly before a message is due, or until something else is to be done.
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

// complete says whether nothing more is to come or to be sent.
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

// asks is how many answers to markers there will be.
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
