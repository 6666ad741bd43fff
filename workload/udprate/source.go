package udprate

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	limit = int64(traffic.DrainLimit) // ns: what has not come by then after the close is lost

	// edge is how far off the edges of a window may be, in ns: as many datagrams share one reading of the clock as are
	// sent in that time, mostShare at most, and one where each takes longer. A reading for each would cost the fastest
	// paths 3 % of their rate (30 ns of 1 µs), this 0.3 %. Both edges are late by as much on average, and 20 µs are 0.06 %
	// of the shortest window (docs/method.md). What one call sends shares a time in any case: 64 datagrams take some 40
	// µs.
	edge      = 20_000
	mostShare = 16

	// nap is how far off a datagram must be for the source to sleep, and how much earlier than it is due that ends: timers
	// come late (the slack of a thread's is 50 µs, prctl(2)).
	nap = 150_000 // ns

	// markerEvery is how long an end marker waits for its answer before the next one is sent, in ns. A sink that is behind
	// has the hundreds of datagrams that its buffer holds to take first, and what comes meanwhile is dropped.
	markerEvery = 1_000_000
)

const markerLost = "the end marker was lost: lower the rate if that is often so"

// mode is how many datagrams a system call takes.
type mode int

const (
	single    mode = iota // one
	batched               // many (sendmmsg, recvmmsg)
	segmented             // one message that the kernel cuts into many, and joins again (UDP_SEGMENT, UDP_GRO)
)

// endpoint is what both sides have.
type endpoint struct {
	sock   sock.Socket // the first
	buf    []byte
	sample traffic.Sample
	counts counts
}

func (e *endpoint) Sample() *traffic.Sample      { return &e.sample }
func (e *endpoint) Recorders() traffic.Recorders { return traffic.Recorders{} }
func (e *endpoint) Facts() (sock.Facts, error)   { return e.sock.Facts() }
func (e *endpoint) Close()                       { e.sock.Close() }

func (e *endpoint) header() *[traffic.HeaderSize]byte { return (*[traffic.HeaderSize]byte)(e.buf) }

type source struct {
	endpoint             // buf: a slot for each datagram of a call
	mode     mode        //
	size     int         // bytes of a datagram, if all are equal; else of the one that is sent now
	stride   int         // bytes of a slot
	most     int         // datagrams of a call
	batch    *sock.Batch // of mode batched: the slots

	flows   []sock.Socket
	numbers [mostFlows]uint64 // the next number of each
	flow    int               // whose turn it is
	step    uint64            // of a search

	schedule  *traffic.Schedule // nil: as many as possible
	varied    bool              // it has sizes of its own
	departure *traffic.Recorder // nil where nothing is due
	trials    uint64            // so far

	seeker  *seeker // nil: the rate is given
	answer  [answerSize]byte
	refused sock.Errno // why the last datagram that was not sent was not
}

// Recorders implements [traffic.Endpoint].
func (s *source) Recorders() traffic.Recorders {
	return traffic.Recorders{traffic.Departure: s.departure}
}

// Close implements [traffic.Endpoint].
func (s *source) Close() {
	for _, flow := range s.flows {
		flow.Close()
	}
}

// Prepare implements [traffic.Endpoint]. It takes what an earlier trial left in the sockets.
func (s *source) Prepare(uint64) {
	s.sample, s.counts = traffic.Sample{}, counts{}
	for _, flow := range s.flows {
		s.sample.Late += flow.Drain()
	}
	if s.schedule != nil {
		s.schedule.Begin(s.trials)
	}
	if s.departure != nil {
		s.departure.Reset()
	}
	s.trials++
	s.step, s.flow, s.refused = 0, 0, 0
	clear(s.numbers[:])
}

// Run sends until the close.
func (s *source) Run(trial uint64, w traffic.Window) {
	switch {
	case s.seeker != nil:
		s.seek(trial, w)
	case s.schedule != nil:
		s.pace(trial, w)
		s.sample.Unsent = s.schedule.Unsent(uint64(s.sample.Total), w.Open, w)
	default:
		s.send(trial, w)
	}
	s.rest(w.Close) // the window is as long as it is, whatever is due
	if _, answered := s.end(trial, markerOver, limit); !answered {
		s.sample.Doubt = markerLost
	}
}

// rest sleeps until a time.
func (s *source) rest(until int64) {
	for now := clock.Now(); now < until; now = clock.Now() {
		s.sock.WaitRecv(until - now)
	}
}

// pace sends each datagram when it is due. What is late is sent at once, as many as a call takes: the schedule does not
// move.
//
//go:nosplit
func (s *source) pace(trial uint64, w traffic.Window) {
	var seq, ahead uint64 // the first that was not sent, and the first that was not due when the clock was read
	next := w.Open + s.schedule.Due(0)
	for now := clock.Now(); now < w.Close; now = clock.Now() {
		for next <= now {
			ahead++
			next = w.Open + s.schedule.Due(ahead)
		}
		if seq == ahead {
			if next >= w.Close {
				break
			}
			if next-now > 2*nap {
				s.sock.WaitRecv(next - now - nap) // for an answer that does not come
			}
			continue
		}
		s.counts.backlog = max(s.counts.backlog, int64(ahead-seq-1))
		n := min(int(ahead-seq), s.most)
		for i := range n {
			s.fill(i, trial, s.schedule.Due(seq+uint64(i)))
			if s.varied {
				s.resize(i, s.schedule.Size(seq+uint64(i)))
			}
		}
		for range s.flush(n) {
			due := w.Open + s.schedule.Due(seq)
			if seq++; due < w.Start {
				continue
			}
			s.sample.Sent++
			if s.departure != nil {
				s.departure.Record(now - due)
			}
		}
	}
	s.sample.Total += int64(seq)
}

// send sends datagrams in batches that share a time: that of the clock before the first of them. By it source and sink
// tell alike whether a datagram was sent inside the window. (The functions of the loops are nosplit: without a stack
// check they hold no point at which the Go scheduler takes the thread.)
//
//go:nosplit
func (s *source) send(trial uint64, w traffic.Window) {
	share := 1
	for now := clock.Now(); now < w.Close; {
		sent := 0
		if s.mode == single {
			for sent < share {
				s.fill(0, trial, now-w.Open)
				if s.flush(1) == 0 {
					break
				}
				sent++
			}
		} else {
			for i := range s.most {
				s.fill(i, trial, now-w.Open)
			}
			sent = s.flush(s.most)
		}
		s.sample.Total += int64(sent)
		if now >= w.Start {
			s.sample.Sent += int64(sent)
		}
		then := now
		now = clock.Now()
		switch took := now - then; {
		case took > edge:
			share = max(1, share/2)
		case took < edge/2:
			share = min(2*share, mostShare)
		}
	}
}

// fill writes the header of the datagram in a slot.
//
//go:nosplit
func (s *source) fill(slot int, trial uint64, since int64) {
	seq := uint64(s.flow)<<flowShift | s.step<<stepShift | s.numbers[s.flow] + uint64(slot)
	traffic.PutHeader((*[traffic.HeaderSize]byte)(s.buf[slot*s.stride:]), trial, seq, since)
}

// resize sets the length of the datagram in a slot. Segments cannot have different ones.
//
//go:nosplit
func (s *source) resize(slot, size int) {
	if s.size = size; s.mode == batched {
		s.batch.SetLen(slot, size)
	}
}

// flush sends the first n slots, in one call, and gives the turn to the next flow. It returns how many were sent. Where
// it is fewer the buffer was full for too long, a signal came, a packet before this one was refused, a filter does not
// let it out: the clock says whether there is another try.
//
//go:nosplit
func (s *source) flush(n int) int {
	to, sent := s.flows[s.flow], n
	var errno sock.Errno
	for flags := sock.DontWait; ; flags = 0 {
		switch s.mode {
		case batched:
			sent, errno = to.SendBatch(s.batch, n, flags)
		case segmented:
			_, errno = to.Send(&s.buf[0], n*s.size, flags)
		default:
			_, errno = to.Send(&s.buf[0], s.size, flags)
		}
		if errno != sock.Again || flags == 0 {
			break
		}
		s.counts.blocked++
	}
	if errno != 0 {
		s.refused = errno
		return 0
	}
	s.numbers[s.flow] += uint64(sent)
	if s.flow++; s.flow == len(s.flows) {
		s.flow = 0
	}
	return sent
}

// end sends end markers until the sink has answered one, or for so many ns. It returns how many datagrams of the step
// have come. After a step, which may have filled a long queue, markers become rare: they are not to fill it further.
func (s *source) end(trial uint64, over int, patience int64) (came int64, answered bool) {
	start, wait := clock.Now(), int64(markerEvery)
	for number, now := 0, start; now < start+patience; number, now = number+1, clock.Now() {
		marker := number<<markerNumber | over | int(s.step)<<markerStep
		for i, flow := range s.flows {
			traffic.PutMarker(s.header(), trial, marker|i)
			flow.Send(&s.buf[0], traffic.HeaderSize, 0) // where it cannot be sent, the next one may be
		}
		if came, answered := s.answered(trial, marker, min(now+wait, start+patience)); answered {
			return came, true
		}
		if over == 0 {
			wait *= 2
		}
	}
	return 0, false
}

// answered waits for a marker to come back. It sleeps: the sink may need this CPU to get there.
//
//go:nosplit
func (s *source) answered(trial uint64, marker int, until int64) (came int64, answered bool) {
	for {
		n, errno := s.sock.Recv(&s.answer[0], len(s.answer), sock.DontWait)
		if errno == 0 && n >= traffic.HeaderSize {
			gotTrial, seq, word := traffic.Header((*[traffic.HeaderSize]byte)(s.answer[:]))
			if gotTrial == trial && seq == traffic.Marker && (word^int64(marker))&markerKey == 0 {
				return word >> markerNumber, true
			}
			continue
		}
		left := until - clock.Now()
		if left <= 0 {
			return 0, false
		}
		s.sock.WaitRecv(left)
	}
}

// Collect implements [traffic.Collector]. A source that has sent nothing was refused or had no CPU: no rate of 0, but
// no trial.
func (s *source) Collect() {
	s.counts.put(&s.sample)
	if s.sample.Sent > 0 || s.sample.Failure != "" {
		return
	}
	s.sample.Failure = "no datagram was sent inside the window"
	if s.refused != 0 {
		s.sample.Failure += ": " + s.refused.Error()
	}
}
