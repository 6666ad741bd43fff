package underload

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	// timedEvery is how many datagrams of the flood share one clock read.
	timedEvery = 8

	// leastTimed is the least number of datagrams for a rate. A flood of the shortest sound trial has thousands.
	leastTimed = 2 * timedEvery
)

// sink counts what arrives and answers datagrams that ask for it.
type sink struct {
	endpoint
	counter traffic.Counter
	flood   flood
	stall   workload.Stall
	drops   int64 // at the full receive buffer, at the start of the load
}

// flood is the result of a flood, by the clock of the sink.
type flood struct {
	count, timed int64 // all datagrams, and those up to the last clock read
	first, last  int64 // ns
}

// rate returns datagrams a second: the first one only starts the time. -1 means that too few arrived.
//
//go:nosplit
func (f *flood) rate() int64 {
	if f.timed < leastTimed || f.last <= f.first {
		return -1
	}
	return int64(float64(f.timed-1) / float64(f.last-f.first) * 1e9)
}

// Prepare implements [traffic.Endpoint].
func (s *sink) Prepare(trial uint64) {
	s.endpoint.Prepare(trial)
	s.counter.Reset()
	s.flood = flood{}
}

// Run counts and answers until the end marker has arrived, or cannot arrive any more.
func (s *sink) Run(trial uint64, w traffic.Window) {
	s.drops, _ = s.sock.Drops()
	s.serve(trial, w)
	if drops, known := s.sock.Drops(); known {
		s.counts.dropped = drops - s.drops
	}
}

//go:nosplit
func (s *sink) serve(trial uint64, w traffic.Window) {
	for looks := 1; ; looks++ {
		if s.stall.Every > 0 {
			traffic.StandStill(w.Open, s.stall.Every, s.stall.For)
		}
		n, awaited, errno := s.receive()
		if errno != 0 || looks%looksPerClock == 0 {
			if clock.Now() > w.Close+limit {
				s.sample.Doubt = traffic.MarkerLost
				return
			}
		}
		if errno != 0 || n < traffic.HeaderSize {
			continue
		}
		gotTrial, seq, since := traffic.Header(s.received())
		if gotTrial != trial {
			s.sample.Late++
			continue
		}
		if seq == floodEnd {
			s.drops, _ = s.sock.Drops() // the flood may lose some
			traffic.PutHeader(s.received(), trial, floodEnd, s.flood.rate())
		}
		if seq&asked != 0 { // the markers too; an answer that cannot be sent is lost
			s.sock.Send(&s.in[0], traffic.HeaderSize, sock.DontWait)
		}
		switch {
		case seq == traffic.Marker:
			return // if the answer is lost, the source reports a doubt
		case seq == floodEnd:
		case seq&flooding != 0:
			s.flooded()
		default:
			s.count(seq&^asked, since >= w.Start-w.Open, awaited)
		}
	}
}

// receive receives one datagram, and reports whether it had to wait for it.
//
//go:nosplit
func (s *sink) receive() (n int, awaited bool, errno sock.Errno) {
	for range looksPerClock {
		n, errno = s.sock.Recv(&s.in[0], len(s.in), sock.DontWait)
		if errno != sock.Again {
			return n, awaited, errno
		}
		awaited = true
		if !s.spin {
			n, errno = s.sock.Recv(&s.in[0], len(s.in), 0)
			return n, awaited, errno
		}
	}
	return n, awaited, errno
}

// flooded counts a datagram of the flood.
//
//go:nosplit
func (s *sink) flooded() {
	f := &s.flood
	if f.count == 0 {
		f.first = clock.Now()
	}
	f.count++
	s.sample.Total++
	if f.count%timedEvery == 0 {
		f.timed, f.last = f.count, clock.Now()
	}
}

// count counts a datagram of the load.
//
//go:nosplit
func (s *sink) count(number uint64, inside, awaited bool) {
	switch s.counter.Note(number) {
	case traffic.Duplicate:
		if inside {
			s.counts.repeated++
		}
		return
	case traffic.TooLate:
		s.sample.Late++
		return
	case traffic.Reordered:
		if inside {
			s.counts.reordered++
		}
	case traffic.InOrder:
	}
	s.sample.Total++
	if inside {
		s.sample.Received++
		if awaited {
			s.counts.awaited++
		}
	}
}
