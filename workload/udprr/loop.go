package udprr

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	limit = int64(traffic.DrainLimit) // ns: a response that is not there by then is lost

	// looksPerClock is how many times a spinning loop asks the socket before it asks the clock.
	looksPerClock = 64

	// patience is how long recv blocks at most, two ticks at HZ=250: what is lost is noticed after at most limit + patience + a tick.
	patience = 8 * time.Millisecond
)

// endpoint is what both sides have.
type endpoint struct {
	sock     sock.Socket
	out, in  []byte
	sample   traffic.Sample
	recorder *traffic.Recorder
}

func (e *endpoint) Sample() *traffic.Sample { return &e.sample }
func (e *endpoint) Recorders() traffic.Recorders {
	return traffic.Recorders{traffic.Latency: e.recorder}
}
func (e *endpoint) Facts() (sock.Facts, error) { return e.sock.Facts() }
func (e *endpoint) Close()                     { e.sock.Close() }

// Prepare takes what an earlier trial left in the socket.
func (e *endpoint) Prepare(uint64) {
	e.sample = traffic.Sample{}
	if e.recorder != nil {
		e.recorder.Reset()
	}
	for {
		if _, errno := e.sock.Recv(&e.in[0], len(e.in), sock.DontWait); errno != 0 && errno != sock.Interrupted {
			return
		}
		e.sample.Late++
	}
}

func (e *endpoint) header() *[traffic.HeaderSize]byte   { return (*[traffic.HeaderSize]byte)(e.out) }
func (e *endpoint) received() *[traffic.HeaderSize]byte { return (*[traffic.HeaderSize]byte)(e.in) }

type source struct {
	endpoint
	spin bool
}

// Run sends a request, waits for its response, and so on. The end of one round trip is the beginning of the next: one clock
// read each.
func (s *source) Run(trial uint64, w traffic.Window) {
	var seq uint64
	sent := w.Open
	for sent < w.Close {
		now, ok := s.trip(trial, seq, sent)
		seq++
		s.sample.Total++
		if sent >= w.Start {
			s.sample.Sent++
			if ok {
				s.sample.Received++
				s.recorder.Record(now - sent)
			}
		}
		sent = now
	}
	s.end(trial)
}

// trip is one request and its response. It returns the time, and whether the response came. (The functions of the loop are
// nosplit: without a stack check they hold no point at which the Go scheduler takes the thread.)
//
//go:nosplit
func (s *source) trip(trial, seq uint64, sent int64) (int64, bool) {
	traffic.PutHeader(s.header(), trial, seq, 0) // nobody asks for its time
	for {
		_, errno := s.sock.Send(&s.out[0], len(s.out), 0)
		if errno == 0 {
			break
		}
		if now := clock.Now(); now-sent > limit {
			return now, false
		}
	}
	return s.await(trial, seq, sent+limit)
}

// await waits for the datagram of this trial and sequence number until it comes or the time to give up has passed.
//
//go:nosplit
func (s *source) await(trial, seq uint64, giveUp int64) (int64, bool) {
	flags := 0
	if s.spin {
		flags = sock.DontWait
	}
	for looks := 1; ; looks++ {
		n, errno := s.sock.Recv(&s.in[0], len(s.in), flags)
		if errno == 0 && n >= traffic.HeaderSize {
			if gotTrial, gotSeq, _ := traffic.Header(s.received()); gotTrial == trial && gotSeq == seq {
				return clock.Now(), true
			}
			s.sample.Late++
		}
		// A response counts as lost when the time is up: the kernel says so by EAGAIN in mode wait, the clock in mode spin and
		// where strays keep coming.
		if !s.spin || looks%looksPerClock == 0 {
			if now := clock.Now(); now > giveUp {
				return now, false
			}
		}
	}
}

// end sends the end marker until the sink has answered it, or for as long as a drain may take.
func (s *source) end(trial uint64) {
	start := clock.Now()
	for number, now := 0, start; now < start+limit; number, now = number+1, clock.Now() {
		traffic.PutMarker(s.header(), trial, number)
		if _, errno := s.sock.Send(&s.out[0], len(s.out), 0); errno != 0 {
			continue
		}
		if _, ok := s.await(trial, traffic.Marker, now+limit/4); ok {
			return
		}
	}
	s.sample.Doubt = "the end marker was lost"
}

type sink struct {
	endpoint
	spin  bool
	plant int64 // ns

	clockCost int64 // ns of one clock read
}

// delay spins for as long as is planted and returns how long it really was: the clock reads at both ends count for one.
//
//go:nosplit
func (s *sink) delay() int64 {
	start := clock.Now()
	for {
		if now := clock.Now(); now-start >= s.plant {
			return now - start + s.clockCost
		}
	}
}

// Run answers requests until the end marker has come, or cannot come any more.
func (s *sink) Run(trial uint64, w traffic.Window) {
	flags := 0
	if s.spin {
		flags = sock.DontWait
	}
	for looks := 1; ; looks++ {
		n, errno := s.sock.Recv(&s.in[0], len(s.in), flags)
		if errno != 0 {
			if s.spin && looks%looksPerClock != 0 {
				continue
			}
			if clock.Now() > w.Close+limit {
				s.sample.Doubt = "the end marker was lost"
				return
			}
			continue
		}
		if n < traffic.HeaderSize {
			continue
		}
		gotTrial, seq, _ := traffic.Header(s.received())
		if gotTrial != trial {
			s.sample.Late++
			continue
		}
		if s.plant > 0 {
			s.sample.Planted += s.delay()
		}
		s.sock.Send(&s.in[0], n, 0) // a response that cannot be sent is lost: the source counts it
		if seq == traffic.Marker {
			return
		}
		s.sample.Total++
	}
}
