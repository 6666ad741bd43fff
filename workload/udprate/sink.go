package udprate

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	// looksPerClock is how many times a sink receives before it reads the clock to check whether the trial should have
	// ended.
	looksPerClock = 64

	// mostAsks is how many times a sink that has found nothing polls before it sleeps: about 20 µs. See the package's
	// documentation.
	mostAsks = 128

	// gather is how long a batched sink that has emptied the queue waits for more datagrams. Each look at the queue
	// takes its cache line away from the CPU that fills it, and finds only one or two datagrams. Without this wait, the
	// source needs 8 % more time per datagram over loopback; with 20 µs, the sink falls behind. At a million datagrams
	// a second, the buffer holds fifty times as many. Joined segments are rare enough to need no wait.
	gather = 5_000 // ns

	// sleepsPerTry is how many times a sink that has stopped polling sleeps before it tries again. If sleeping is
	// right, one sleep covers hundreds of datagrams, and trying costs 0.2 %. If the source only stood still for some
	// ticks, the sleeps are soon over.
	sleepsPerTry = 32

	// patience is the longest time for which send and recv block, two ticks at HZ=250.
	patience = 8 * time.Millisecond
)

type sink struct {
	endpoint                   // buf: one datagram; nil if there is a batch
	batch    *sock.Batch       // for the modes batched and segmented
	slots    int               // of the batch
	joins    bool              // a message of the batch can be many datagrams
	counters []traffic.Counter // one for each flow
	from     sock.Address      // with several flows: the source of the datagram in buf
	peer     sock.Address      // the source of the first flow
	seeks    bool              // the source searches: after each step it asks how many datagrams arrived
	stall    workload.Stall

	start  int64  // ns since the opening: start of the window
	step   uint64 // the step whose datagrams are counted
	before int64  // number that arrived before it
	ended  uint64 // a bit for each flow whose end marker of this step has arrived
	over   uint64 // a bit for each flow whose end marker of the trial has arrived

	messages int64 // of the batches so far
	asks     int   // how many times it polls before it sleeps
	slept    int   // how many times it slept without polling
	awaited  int64 // 1: there was nothing to receive before the last datagrams
	emptied  int64 // 1: the last batch emptied the queue

	delay int64 // ns: for a search, how long the thread had waited for a CPU before the trial
}

// Prepare implements [traffic.Endpoint]. It discards what an earlier trial left in the socket.
func (s *sink) Prepare(uint64) {
	s.sample, s.counts = traffic.Sample{Late: s.sock.Drain()}, counts{}
	for i := range s.counters {
		s.counters[i].Reset()
	}
	s.step, s.before, s.ended, s.over, s.messages = 0, 0, 0, 0, 0
	s.asks, s.slept, s.emptied = mostAsks, 0, 0
}

// Run counts until the end marker has arrived, or cannot arrive any more.
//
//go:nosplit
func (s *sink) Run(trial uint64, w traffic.Window) {
	drops, known := s.sock.Drops()
	s.start = w.Start - w.Open
	if s.seeks {
		s.start = math.MaxInt64 // the source reports the counts of the step that counts
		s.delay = thread.Delay()
	}
	for looks := 1; ; looks++ {
		n, errno := s.receive()
		if (errno != 0 || looks%looksPerClock == 0) && clock.Now() > w.Close+limit {
			s.sample.Doubt = markerLost
			break
		}
		if errno == 0 && s.take(trial, n) {
			break
		}
		if s.stall.Every > 0 {
			s.stand(w.Open)
		}
	}
	if now, _ := s.sock.Drops(); known {
		s.counts.dropped = now - drops
		if s.joins && s.messages > 0 { // each as large as the received ones, on average
			s.counts.dropped = s.counts.dropped * s.sample.Total / s.messages
		}
	}
}

// receive takes what is there, one message or a batch. Polling without success halves the number of polls, and success
// while polling doubles it (like the kernel's halt polling, virt/kvm/kvm_main.c): if the source needs this CPU, a sink
// soon sleeps at once.
//
//go:nosplit
func (s *sink) receive() (int, sock.Errno) {
	s.awaited = s.emptied
	if s.emptied > 0 && s.asks > 0 && !s.joins {
		for until := clock.Now() + gather; clock.Now() < until; {
		}
	}
	for i := range s.asks {
		n, errno := s.ask(sock.DontWait)
		if errno == sock.Again {
			continue
		}
		if i > 0 {
			s.awaited = 1
			s.asks = min(2*s.asks, mostAsks)
		}
		return n, errno
	}
	if s.asks /= 2; s.asks == 0 {
		if s.slept++; s.slept%sleepsPerTry == 0 {
			s.asks = mostAsks
		}
	}
	s.awaited = 1
	return s.ask(sock.WaitForOne)
}

// ask receives the bytes of one message, or the messages of a batch.
//
//go:nosplit
func (s *sink) ask(flags int) (int, sock.Errno) {
	switch {
	case s.batch != nil:
		n, errno := s.sock.RecvBatch(s.batch, flags)
		if errno == 0 {
			s.emptied = 0
			if n < s.slots {
				s.emptied = 1
			}
		}
		return n, errno
	case len(s.counters) > 1:
		return s.sock.RecvFrom(&s.buf[0], len(s.buf), flags&sock.DontWait, &s.from)
	default:
		return s.sock.Recv(&s.buf[0], len(s.buf), flags&sock.DontWait)
	}
}

// take handles the result of ask, and reports whether the trial is over.
//
//go:nosplit
func (s *sink) take(trial uint64, n int) bool {
	if s.batch == nil {
		return n >= traffic.HeaderSize && s.datagram(trial, s.header(), n, &s.from)
	}
	s.messages += int64(n)
	for i := range n {
		message := s.batch.Message(i)
		size := s.batch.Segment(i)
		if size == 0 {
			size = len(message)
		}
		for len(message) >= traffic.HeaderSize {
			if s.datagram(trial, (*[traffic.HeaderSize]byte)(message), min(size, len(message)), s.batch.From(i)) {
				return true
			}
			message = message[min(size, len(message)):]
		}
	}
	return false
}

// datagram handles a datagram of n bytes, and reports whether the trial is over.
//
//go:nosplit
func (s *sink) datagram(trial uint64, header *[traffic.HeaderSize]byte, n int, from *sock.Address) bool {
	gotTrial, seq, since := traffic.Header(header)
	switch {
	case gotTrial != trial:
		s.sample.Late++
	case seq == traffic.Marker:
		return s.marker(trial, since, from)
	default:
		s.count(seq, n, since >= s.start)
	}
	return false
}

// count counts one datagram of the trial.
//
//go:nosplit
func (s *sink) count(seq uint64, n int, inside bool) {
	flow, step := seq>>flowShift, seq>>stepShift%mostSteps
	if step != s.step && !s.begin(step) || flow >= uint64(len(s.counters)) {
		s.sample.Late++
		return
	}
	switch s.counters[flow].Note(seq & numberMask) {
	case traffic.InOrder:
	case traffic.Reordered:
		if inside {
			s.counts.reordered++
		}
	case traffic.Duplicate:
		if inside {
			s.counts.repeated++
		}
		return
	case traffic.TooLate:
		s.sample.Late++
		return
	}
	s.sample.Total++
	s.sample.Bytes += int64(n)
	s.counts.awaited += s.awaited
	if inside {
		s.sample.Received++
	}
}

// begin starts to count another step, if it is a later one.
//
//go:nosplit
func (s *sink) begin(step uint64) bool {
	if step < s.step {
		return false
	}
	s.step, s.before, s.ended = step, s.sample.Total, 0
	for i := range s.counters {
		s.counters[i].Reset()
	}
	return true
}

// marker handles an end marker. It answers the marker of the flow that ends the step or the trial, and reports whether
// the trial is over. It is not nosplit: it is called once a step, and the loop above it is as deep as a build with
// fuzzing allows.
func (s *sink) marker(trial uint64, word int64, from *sock.Address) bool {
	flow, over := uint64(word)&(1<<markerStep-1), word&markerOver != 0
	if step := uint64(word) >> markerStep % mostSteps; step != s.step && !s.begin(step) ||
		flow >= uint64(len(s.counters)) {
		return false // a repetition from before the answer
	}
	if flow == 0 {
		s.peer = *from
	}
	which := &s.ended
	if over {
		which = &s.over
	}
	if *which |= 1 << flow; *which != uint64(1)<<len(s.counters)-1 {
		return false
	}
	var answer [answerSize]byte
	traffic.PutHeader((*[traffic.HeaderSize]byte)(answer[:]), trial, traffic.Marker,
		(s.sample.Total-s.before)<<markerNumber|word&(1<<markerNumber-1))
	size := traffic.HeaderSize
	if s.seeks {
		binary.LittleEndian.PutUint64(answer[size:], uint64(thread.Delay()-s.delay))
		size = answerSize
	}
	// If the answer is lost, the source reports a doubt.
	if len(s.counters) > 1 {
		s.sock.SendTo(&answer[0], size, 0, &s.peer)
	} else {
		s.sock.Send(&answer[0], size, 0)
	}
	return over
}

// stand stands still at intervals.
//
//go:nosplit
func (s *sink) stand(open int64) {
	now := clock.Now()
	into := (now - open) % int64(s.stall.Every)
	if now-open < int64(s.stall.Every) || into >= int64(s.stall.For) {
		return
	}
	for until := now + int64(s.stall.For) - into; clock.Now() < until; {
	}
}
