package udprate

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	limit = int64(traffic.DrainLimit) // ns: what arrives later than this after the close is lost

	// edge is how inaccurate the edges of a window may be, in ns: the datagrams that are sent in that time share one
	// clock read, at most mostShare of them, and only one if each takes longer. A clock read for each would cost the
	// fastest paths 3 % of their rate (30 ns of 1 µs), and this costs 0.3 %. Both edges are late by the same time on
	// average, and 20 µs are 0.06 % of the shortest window (docs/method.md). The datagrams of one call share a time in
	// any case: 64 datagrams take about 40 µs.
	edge      = 20_000
	mostShare = 16

	// nap is the shortest time to the next datagram for which the source sleeps, and how much earlier than due that
	// sleep ends. Timers expire late (the slack of a thread's timers is 50 µs, prctl(2)).
	nap = 150_000 // ns

	// markerEvery is how long to wait for the answer to an end marker before the next one is sent, in ns. A sink that
	// is behind first has to receive the hundreds of datagrams in its buffer, and datagrams that arrive meanwhile are
	// dropped.
	markerEvery = 1_000_000
)

const markerLost = "the end marker was lost: lower the rate if that is often so"

// mode says how many datagrams a system call handles.
type mode int

const (
	single    mode = iota // one
	batched               // many (sendmmsg, recvmmsg)
	segmented             // one message that the kernel cuts into many, and joins again (UDP_SEGMENT, UDP_GRO)
)

// endpoint is the common part of both sides.
type endpoint struct {
	sock   sock.Socket // of the first flow
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
	size     int         // bytes of a datagram, if all are equal; otherwise of the one in progress
	stride   int         // bytes of a slot
	most     int         // largest number of datagrams in a call
	batch    *sock.Batch // for mode batched: the slots

	flows   []sock.Socket
	numbers [mostFlows]uint64 // the next number of each flow
	flow    int               // the flow whose turn it is
	step    uint64            // of a search

	schedule  *traffic.Schedule // nil: as many as possible
	varied    bool              // it has its own sizes
	departure *traffic.Recorder // nil if nothing is due
	trials    uint64            // so far

	seeker  *seeker // nil: the rate is given
	answer  [answerSize]byte
	refused sock.Errno // why the last datagram that could not be sent was refused
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

// Prepare implements [traffic.Endpoint]. It discards what an earlier trial left in the sockets.
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
	s.rest(w.Close) // the window has a fixed length, whatever is due
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

// pace sends each datagram when it is due. Late datagrams are sent at once, as many as fit into a call: the schedule
// does not move.
//
//go:nosplit
func (s *source) pace(trial uint64, w traffic.Window) {
	var seq, ahead uint64 // the first one not sent, and the first one not due at the last clock read
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
				s.sock.WaitRecv(next - now - nap) // for an answer that does not arrive
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

// send sends datagrams in batches that share a time: that of the clock before the first of them. Source and sink use
// that time to decide whether a datagram was sent inside the window. (The functions of the loops are nosplit: without a
// stack check, there is no point at which the Go scheduler could take the thread.)
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

// resize sets the length of the datagram in a slot. Segments must all have the same length.
//
//go:nosplit
func (s *source) resize(slot, size int) {
	if s.size = size; s.mode == batched {
		s.batch.SetLen(slot, size)
	}
}

// flush sends the first n slots in one call, and switches to the next flow. It returns how many were sent. It may be
// fewer because the buffer was full for too long, a signal arrived, an earlier packet was refused, or a filter dropped
// it; the clock decides whether there is another try.
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

// end sends end markers until the sink has answered one, or for this many ns. It returns how many datagrams of the step
// have arrived. After a step, which may have filled a long queue, markers become rare, so that they do not fill it
// further.
func (s *source) end(trial uint64, over int, patience int64) (came int64, answered bool) {
	start, wait := clock.Now(), int64(markerEvery)
	for number, now := 0, start; now < start+patience; number, now = number+1, clock.Now() {
		marker := number<<markerNumber | over | int(s.step)<<markerStep
		for i, flow := range s.flows {
			traffic.PutMarker(s.header(), trial, marker|i)
			flow.Send(&s.buf[0], traffic.HeaderSize, 0) // if it cannot be sent, the next one may be
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

// answered waits for the answer to a marker. It sleeps, because the sink may need this CPU to answer.
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

// Collect implements [traffic.Collector]. A source that has sent nothing was refused or had no CPU: that is a failed
// trial, not a rate of 0.
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
