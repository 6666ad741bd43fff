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
	// looksPerClock is how many times a sink receives before it asks the clock whether that should have ended.
	looksPerClock = 64

	// mostAsks is how many times a sink that has found nothing asks again before it sleeps: some 20 µs. See the package's
	// documentation.
	mostAsks = 128

	// gather is how long a sink of batches that has taken all there was does nothing, for more to come. Each look at the
	// queue takes its cache line from the CPU that fills it, and finds one or two datagrams: without it the source needs 8
	// % more time for each over loopback, with 20 µs the sink falls behind. At a million datagrams a second the buffer
	// holds fifty times as much. Joined segments are rare enough.
	gather = 5_000 // ns

	// sleepsPerTry is how many times a sink that has stopped asking sleeps before it tries again: where sleeping is right
	// one sleep is worth hundreds of datagrams, and trying costs 0.2 %; where the source only stood still for some ticks,
	// they are soon over.
	sleepsPerTry = 32

	// patience is how long send and recv block at most, two ticks at HZ=250.
	patience = 8 * time.Millisecond
)

type sink struct {
	endpoint                   // buf: one datagram; nil where there is a batch
	batch    *sock.Batch       // of modes batched and segmented
	slots    int               // of the batch
	joins    bool              // a message of the batch can be many datagrams
	counters []traffic.Counter // of each flow
	from     sock.Address      // of several flows: where the datagram in buf came from
	peer     sock.Address      // where the first flow comes from
	seeks    bool              // the source searches: it asks after each step how many datagrams came
	stall    workload.Stall

	start  int64  // ns since the opening: when the window begins
	step   uint64 // that datagrams are counted of
	before int64  // how many came before it
	ended  uint64 // a bit for each flow whose end marker of this step has come
	over   uint64 // and for each whose end marker of the trial has

	messages int64 // of the batches so far
	asks     int   // how many times it asks before it sleeps
	slept    int   // how many times it slept without asking
	awaited  int64 // 1: there was nothing to receive before what was received last
	emptied  int64 // 1: the last batch took all that was there

	delay int64 // ns: of a search, how long the thread had waited for a CPU before the trial
}

// Prepare implements [traffic.Endpoint]. It takes what an earlier trial left in the socket.
func (s *sink) Prepare(uint64) {
	s.sample, s.counts = traffic.Sample{Late: s.sock.Drain()}, counts{}
	for i := range s.counters {
		s.counters[i].Reset()
	}
	s.step, s.before, s.ended, s.over, s.messages = 0, 0, 0, 0, 0
	s.asks, s.slept, s.emptied = mostAsks, 0, 0
}

// Run counts until the end marker has come, or cannot come any more.
//
//go:nosplit
func (s *sink) Run(trial uint64, w traffic.Window) {
	drops, known := s.sock.Drops()
	s.start = w.Start - w.Open
	if s.seeks {
		s.start = math.MaxInt64 // the source says what it got in the step that counts
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
		if s.joins && s.messages > 0 { // each as large as those that were taken, on average
			s.counts.dropped = s.counts.dropped * s.sample.Total / s.messages
		}
	}
}

// receive takes what there is, one message or a batch. Asking in vain halves the number of times that it asks, and what
// comes while it asks doubles it (as the kernel's halt polling does, virt/kvm/kvm_main.c): where the source needs this
// CPU to go on, a sink soon sleeps at once.
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

// ask receives: bytes of one message, or messages of a batch.
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

// take takes in what ask has returned, and says whether the trial is over.
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

// datagram takes one in, of n bytes, and says whether the trial is over.
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

// count takes one datagram of the trial in.
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

// begin begins to count another step, if it is a later one.
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

// marker takes an end marker in. It answers that of the flow that ends the step or the trial, and says whether the
// trial is over. It is not nosplit: it is called once a step, and the loop above it is as deep as a build with fuzzing
// allows.
func (s *sink) marker(trial uint64, word int64, from *sock.Address) bool {
	flow, over := uint64(word)&(1<<markerStep-1), word&markerOver != 0
	if step := uint64(word) >> markerStep % mostSteps; step != s.step && !s.begin(step) ||
		flow >= uint64(len(s.counters)) {
		return false // sent again before it was answered
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
	// An answer that is lost leaves the source in doubt, which it says.
	if len(s.counters) > 1 {
		s.sock.SendTo(&answer[0], size, 0, &s.peer)
	} else {
		s.sock.Send(&answer[0], size, 0)
	}
	return over
}

// stand does nothing for a while, now and then.
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
