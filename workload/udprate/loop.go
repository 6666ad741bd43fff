package udprate

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	limit = int64(traffic.DrainLimit) // ns: what has not come by then after the close is lost

	// edge is how far off the edges of a window may be, in ns: as many datagrams share one reading of the clock as are sent in that time,
	// maxBatch at most, and one where each takes longer. A reading for each would cost the fastest paths 3 % of their rate (30 ns of 1 µs), this
	// 0.3 %. Both edges are late by as much on average, and 20 µs are 0.06 % of the shortest window (docs/method.md).
	edge     = 20_000
	maxBatch = 16

	// looksPerClock is how many datagrams a sink takes before it asks the clock whether they should have ended.
	looksPerClock = 64

	// mostAsks is how many times a sink that has found nothing asks again before it sleeps: some 20 µs. See the package's documentation.
	mostAsks = 128

	// sleepsPerTry is how many times a sink that has stopped asking sleeps before it tries again: where sleeping is right one sleep is worth
	// hundreds of datagrams, and trying costs 0.2 %; where the source only stood still for some ticks, they are soon over.
	sleepsPerTry = 32

	// patience is how long send and recv block at most, two ticks at HZ=250.
	patience = 8 * time.Millisecond

	// markerEvery is how long an end marker waits for its answer before the next one is sent, in ns. A sink that is behind has the
	// hundreds of datagrams that its buffer holds to take first, and what comes meanwhile is dropped.
	markerEvery = 1_000_000
)

const markerLost = "the end marker was lost"

// endpoint is what both sides have.
type endpoint struct {
	sock   sock.Socket
	buf    []byte // one datagram
	sample traffic.Sample
}

func (e *endpoint) Sample() *traffic.Sample      { return &e.sample }
func (e *endpoint) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (e *endpoint) Facts() (sock.Facts, error)   { return e.sock.Facts() }
func (e *endpoint) Close()                       { e.sock.Close() }

// Prepare takes what an earlier trial left in the socket.
func (e *endpoint) Prepare(uint64) {
	e.sample = traffic.Sample{}
	for {
		if _, errno := e.sock.Recv(&e.buf[0], len(e.buf), sock.DontWait); errno != 0 && errno != sock.Interrupted {
			return
		}
		e.sample.Late++
	}
}

func (e *endpoint) header() *[traffic.HeaderSize]byte { return (*[traffic.HeaderSize]byte)(e.buf) }

type source struct {
	endpoint
	rate    float64    // datagrams a second; 0: as many as possible
	refused sock.Errno // why the last datagram that was not sent was not
}

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(trial uint64) {
	s.endpoint.Prepare(trial)
	s.refused = 0
}

// Run sends until the close.
func (s *source) Run(trial uint64, w traffic.Window) {
	if s.rate > 0 {
		s.pace(trial, w)
	} else {
		s.send(trial, w)
	}
	s.end(trial)
}

// nap is how far off a datagram must be for the source to sleep, and how much earlier than it is due that ends: timers come late (the slack of
// a thread's is 50 µs, prctl(2)).
const nap = 150_000 // ns

// pace sends each datagram when it is due. What is late is sent at once: the schedule does not move.
//
//go:nosplit
func (s *source) pace(trial uint64, w traffic.Window) {
	for seq := uint64(0); ; {
		due := w.Open + traffic.Due(seq, s.rate)
		if due >= w.Close {
			break
		}
		now := clock.Now()
		for now < due {
			if due-now > 2*nap {
				s.sock.WaitRecv(due - now - nap) // for an answer that does not come
			}
			now = clock.Now()
		}
		if now >= w.Close {
			break
		}
		traffic.PutHeader(s.header(), trial, seq, now-w.Open)
		if _, errno := s.sock.Send(&s.buf[0], len(s.buf), 0); errno != 0 {
			s.refused = errno
			continue
		}
		seq++
		if now >= w.Start {
			s.sample.Sent++
		}
		s.sample.Total = int64(seq)
	}
	for now := clock.Now(); now < w.Close; now = clock.Now() { // the window is as long as it is, whatever is due
		s.sock.WaitRecv(w.Close - now)
	}
}

// send sends datagrams in batches that share a time: that of the clock before the first of them. By it source and sink tell alike whether a
// datagram was sent inside the window. (The functions of the loops are nosplit: without a stack check they hold no point at which the
// Go scheduler takes the thread.)
//
//go:nosplit
func (s *source) send(trial uint64, w traffic.Window) {
	var seq uint64
	batch := 1
	for now := clock.Now(); now < w.Close; {
		sent := 0
		for sent < batch {
			traffic.PutHeader(s.header(), trial, seq, now-w.Open)
			if _, errno := s.sock.Send(&s.buf[0], len(s.buf), 0); errno != 0 {
				// The buffer was full for too long, a signal came, a packet before this one was refused, a filter does not let it out: it
				// was not sent, and the clock says whether there is another try.
				s.refused = errno
				break
			}
			seq++
			sent++
		}
		if now >= w.Start {
			s.sample.Sent += int64(sent)
		}
		then := now
		now = clock.Now()
		switch took := now - then; {
		case took > edge:
			batch = max(1, batch/2)
		case took < edge/2:
			batch = min(2*batch, maxBatch)
		}
	}
	s.sample.Total = int64(seq)
}

// end sends the end marker until the sink has answered it, or for as long as a drain may take.
func (s *source) end(trial uint64) {
	start := clock.Now()
	for number, now := 0, start; now < start+limit; number, now = number+1, clock.Now() {
		traffic.PutMarker(s.header(), trial, number)
		s.sock.Send(&s.buf[0], traffic.HeaderSize, 0) // where it cannot be sent, the next one may be
		if s.answered(trial, now+markerEvery) {
			return
		}
	}
	s.sample.Doubt = markerLost
}

// answered waits for the marker to come back. It sleeps: the sink may need this CPU to get there.
//
//go:nosplit
func (s *source) answered(trial uint64, until int64) bool {
	for {
		n, errno := s.sock.Recv(&s.buf[0], len(s.buf), sock.DontWait)
		if errno == 0 && n >= traffic.HeaderSize {
			if gotTrial, seq, _ := traffic.Header(s.header()); gotTrial == trial && seq == traffic.Marker {
				return true
			}
			continue
		}
		left := until - clock.Now()
		if left <= 0 {
			return false
		}
		s.sock.WaitRecv(left)
	}
}

// Collect implements [traffic.Collector]. A source that has sent nothing was refused or had no CPU: no rate of 0, but no trial.
func (s *source) Collect() {
	if s.sample.Sent > 0 || s.sample.Failure != "" {
		return
	}
	s.sample.Failure = "no datagram was sent inside the window"
	if s.refused != 0 {
		s.sample.Failure += ": " + s.refused.Error()
	}
}

type sink struct {
	endpoint
	counter counter
	asks    int // how many times it asks before it sleeps
	slept   int // how many times it slept without asking
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(trial uint64) {
	s.endpoint.Prepare(trial)
	s.counter.reset()
	s.asks, s.slept = mostAsks, 0
}

// Run counts until the end marker has come, or cannot come any more.
//
//go:nosplit
func (s *sink) Run(trial uint64, w traffic.Window) {
	for looks := 1; ; looks++ {
		n, errno := s.receive()
		if errno != 0 || looks%looksPerClock == 0 {
			if clock.Now() > w.Close+limit {
				s.sample.Doubt = markerLost
				return
			}
		}
		if errno != 0 || n < traffic.HeaderSize {
			continue
		}
		gotTrial, seq, since := traffic.Header(s.header())
		switch {
		case gotTrial != trial:
			s.sample.Late++
		case seq == traffic.Marker:
			s.sock.Send(&s.buf[0], n, 0) // an answer that is lost leaves the source in doubt, which it says
			return
		default:
			s.count(seq, since >= w.Start-w.Open)
		}
	}
}

// receive takes one datagram from the socket. Asking in vain halves the number of times that it asks, and what comes while it asks doubles it (as
// the kernel's halt polling does, virt/kvm/kvm_main.c): where the source needs this CPU to go on, a sink soon sleeps at once.
//
//go:nosplit
func (s *sink) receive() (int, sock.Errno) {
	for i := range s.asks {
		n, errno := s.sock.Recv(&s.buf[0], len(s.buf), sock.DontWait)
		if errno == sock.Again {
			continue
		}
		if i > 0 {
			s.asks = min(2*s.asks, mostAsks)
		}
		return n, errno
	}
	if s.asks /= 2; s.asks == 0 {
		if s.slept++; s.slept%sleepsPerTry == 0 {
			s.asks = mostAsks
		}
	}
	return s.sock.Recv(&s.buf[0], len(s.buf), 0)
}

// count takes one datagram of the trial in.
//
//go:nosplit
func (s *sink) count(seq uint64, inside bool) {
	switch s.counter.note(seq) {
	case inOrder:
		s.sample.Total++
		if inside {
			s.sample.Received++
		}
	case reordered:
		s.sample.Total++
		if inside {
			s.sample.Received++
			s.sample.Reordered++
		}
	case duplicate:
		if inside {
			s.sample.Repeated++
		}
	case tooLate:
		s.sample.Late++
	}
}
