package tcprr

import (
	"math/bits"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// outstanding is the largest number of unanswered requests of a flow on a schedule. Further requests wait: they are
	// backlog.
	outstanding = 4096

	// nap is the shortest time to the next request for which the source sleeps, and how much earlier than due that
	// sleep ends, in ns. Timers expire late (the slack of a thread's timers is 50 µs, prctl(2)).
	nap = 150_000
)

type source struct {
	endpoint
	recorders traffic.Recorders
	dither    traffic.Dither // if it spins, with one in flight
	inFlight  int
	schedule  *traffic.Schedule // nil: the loop is closed
	trials    uint64
	flows     []flow

	// State of one trial.
	number uint64 // of the next request on the schedule
	ahead  uint64 // requests below this number are due
	over   int    // flows whose last response has arrived
}

// flow holds the unanswered requests of one connection.
type flow struct {
	asked       []request // by number, modulo the length of the slice
	first, next uint64    // numbers of the oldest request and of the next one
	unsent      int       // bytes of the newest that the socket did not take yet
	got         int       // received bytes of the oldest's response
	ended       bool      // the newest is the last
}

// request is an unanswered request.
type request struct {
	due, sent int64
	size      int
	last      bool
}

// begin discards the last trial.
func (s *source) begin() {
	s.recorders.Reset()
	if s.schedule != nil {
		s.schedule.Begin(s.trials)
	}
	s.trials++
	s.number, s.ahead, s.over = 0, 0, 0
	for i := range s.flows {
		s.flows[i] = flow{asked: s.flows[i].asked}
	}
}

// Recorders implements [traffic.Endpoint].
func (s *source) Recorders() traffic.Recorders { return s.recorders }

// alone reports whether there is one request at a time.
func (s *source) alone() bool { return s.schedule == nil && s.inFlight == 1 && len(s.flows) == 1 }

// Run implements [traffic.Endpoint].
func (s *source) Run(_ uint64, w traffic.Window) {
	if s.Broken {
		return
	}
	var ok bool
	if s.alone() {
		ok = s.single(w)
	} else {
		ok = s.several(w)
	}
	if s.schedule != nil {
		s.sample.Unsent = s.schedule.Unsent(s.number, w.Open, w)
	}
	if !ok {
		s.giveUp(w)
	}
}

// Collect implements [traffic.Collector]. A trial without any response has no figure.
func (s *source) Collect() {
	switch {
	case s.sample.Failure != "":
	case s.sample.Sent == 0:
		s.sample.Failure = "no request was sent inside the window"
	case s.sample.Received == 0:
		s.sample.Failure = "no response arrived"
	}
	s.endpoint.Collect()
}

// single sends a request, waits for its response, and repeats that. The end of one round trip is the start of the next,
// so each takes one clock read. (The functions of the loops are nosplit: without a stack check, there is no point at
// which the Go scheduler could take the thread.)
//
//go:nosplit
func (s *source) single(w traffic.Window) bool {
	deadline := w.Close + limit
	s.head(more, s.request)
	sent := w.Open
	for sent < w.Close {
		inside := sent >= w.Start
		s.sample.Total++
		if inside {
			s.sample.Sent++
		}
		now, ok := s.trip(deadline)
		if !ok {
			return false
		}
		if inside {
			s.sample.Received++
			s.recorders[traffic.Latency].Record(now - sent)
		}
		sent = now
	}
	s.head(last, s.request)
	_, ok := s.trip(deadline)
	return ok
}

// trip sends one request and waits for its response. It returns the time, and whether the response arrived.
//
//go:nosplit
func (s *source) trip(deadline int64) (int64, bool) {
	c := s.conns[0]
	if !s.write(c, s.request, deadline) {
		return 0, false
	}
	flags := 0
	if s.spin {
		flags = sock.DontWait
		s.dither.Wait()
	}
	left := s.answer(s.request)
	for looks := 1; ; looks++ {
		n, errno := c.Recv(&s.in[0], min(left, len(s.in)), flags)
		if errno == 0 && n > 0 {
			if left -= n; left == 0 {
				return clock.Now(), true
			}
			continue
		}
		if errno != sock.Again && errno != sock.Interrupted {
			return 0, s.lost(errno)
		}
		if (!s.spin || looks%looksPerClock == 0) && clock.Now() > deadline {
			return 0, false
		}
	}
}

// head writes the start of a request with a length.
//
//go:nosplit
func (s *source) head(kind byte, length int) {
	s.out[0] = kind
	if s.header == lengthSize {
		s.out[1], s.out[2], s.out[3] = byte(length), byte(length>>8), byte(length>>16)
	}
}

// answer returns the length of the response to a request.
//
//go:nosplit
func (e *endpoint) answer(request int) int {
	if e.response > 0 {
		return e.response
	}
	return request
}

// several drives flows with several requests in flight, or on a schedule. Its only blocking call waits for all of them.
//
//go:nosplit
func (s *source) several(w traffic.Window) bool {
	for s.over < len(s.flows) {
		now := clock.Now()
		next := w.Close
		var ok bool
		switch {
		case now >= w.Close:
			next, ok = w.Close+limit, s.finish()
		case s.schedule != nil:
			next, ok = s.keepUp(now, w)
		default:
			ok = s.fill(w)
		}
		if !ok || now > w.Close+limit || !s.await(now, next, w) {
			return false
		}
	}
	return true
}

// finish sends the last request of each flow that has room for it.
//
//go:nosplit
func (s *source) finish() bool {
	for i := range s.flows {
		f := &s.flows[i]
		if f.ended || f.unsent > 0 {
			continue
		}
		f.ended = true
		if !s.send(i, request{size: s.request, last: true}) {
			return false
		}
	}
	return true
}

// fill sends requests up to the wanted number in flight, until the close.
//
//go:nosplit
func (s *source) fill(w traffic.Window) bool {
	for i := range s.flows {
		for f := &s.flows[i]; f.unsent == 0 && f.next-f.first < uint64(s.inFlight); {
			at := clock.Now()
			if at >= w.Close {
				return true
			}
			if !s.send(i, request{due: at, sent: at, size: s.request}) {
				return false
			}
			s.count(at, w)
		}
	}
	return true
}

// count counts a request that was due at a time.
//
//go:nosplit
func (s *source) count(due int64, w traffic.Window) {
	s.sample.Total++
	if due >= w.Start {
		s.sample.Sent++
	}
}

// keepUp sends what is due, on each flow in turn, and returns when the next request is due.
//
//go:nosplit
func (s *source) keepUp(now int64, w traffic.Window) (next int64, ok bool) {
	for {
		due := w.Open + s.schedule.Due(s.number)
		if due > now || due >= w.Close {
			return min(due, w.Close), true
		}
		for w.Open+s.schedule.Due(s.ahead) <= now {
			s.ahead++
		}
		s.backlog = max(s.backlog, int64(s.ahead-s.number)-1)
		i := int(s.number % uint64(len(s.flows)))
		f := &s.flows[i]
		if f.unsent > 0 || f.next-f.first == outstanding {
			return w.Close, true // until this flow has room
		}
		if !s.send(i, request{due: due, sent: clock.Now(), size: s.schedule.Size(s.number)}) {
			return 0, false
		}
		s.count(due, w)
		s.number++
	}
}

// send starts a request on flow i, which has none that is partly sent.
//
//go:nosplit
func (s *source) send(i int, r request) bool {
	f := &s.flows[i]
	f.asked[f.next&uint64(len(f.asked)-1)] = r
	f.next++
	f.unsent = r.size
	return s.push(i)
}

// push sends the rest of the newest request, as far as the socket takes it.
//
//go:nosplit
func (s *source) push(i int) bool {
	f := &s.flows[i]
	r := &f.asked[(f.next-1)&uint64(len(f.asked)-1)]
	kind := byte(more)
	if r.last {
		kind = last
	}
	s.head(kind, r.size)
	for f.unsent > 0 {
		n, errno := s.conns[i].Send(&s.out[r.size-f.unsent], f.unsent, sock.DontWait|sock.NoSignal)
		switch errno {
		case 0:
			f.unsent -= n
		case sock.Again:
			return true
		case sock.Interrupted:
		default:
			return s.lost(errno)
		}
	}
	return true
}

// await receives the responses that have arrived. If there are none, and if it may wait, it waits until shortly before
// the next request is due.
//
//go:nosplit
func (s *source) await(now, next int64, w traffic.Window) bool {
	if s.spin || next-now <= 2*nap && next < w.Close {
		for i := range s.flows {
			if !s.push(i) || !s.take(i, w) {
				return false
			}
		}
		return true
	}
	for i := range s.flows {
		s.poller.Watch(i, s.conns[i], true, s.flows[i].unsent > 0)
	}
	if next < w.Close {
		next -= nap
	}
	s.poller.Wait(min(max(next-now, 0), int64(patience)))
	for i := range s.flows {
		read, write, told := s.poller.Ready(i)
		if write && !s.push(i) || (read || told) && !s.take(i, w) {
			return false
		}
	}
	return true
}

// take receives data on one flow. A read that does not fill the buffer was the last.
//
//go:nosplit
func (s *source) take(i int, w traffic.Window) bool {
	f := &s.flows[i]
	for {
		n, errno := s.conns[i].Recv(&s.in[0], len(s.in), sock.DontWait)
		if errno == sock.Again || errno == sock.Interrupted {
			return true
		}
		if errno != 0 || n == 0 {
			return s.lost(errno)
		}
		now := clock.Now()
		for left := n; left > 0; {
			if f.first == f.next {
				return false // unrequested bytes
			}
			r := &f.asked[f.first&uint64(len(f.asked)-1)]
			part := min(left, s.answer(r.size)-f.got)
			left -= part
			if f.got += part; f.got < s.answer(r.size) {
				continue
			}
			f.first++
			f.got = 0
			s.came(r, now, w)
		}
		if n < len(s.in) {
			return true
		}
	}
}

// came records a request whose response has arrived.
//
//go:nosplit
func (s *source) came(r *request, now int64, w traffic.Window) {
	switch {
	case r.last:
		s.over++
	case r.due >= w.Start:
		s.sample.Received++
		s.recorders[traffic.Latency].Record(now - r.due)
		if s.schedule != nil {
			s.recorders[traffic.Service].Record(now - r.sent)
			s.recorders[traffic.Departure].Record(r.sent - r.due)
		}
	}
}

// room returns the number of requests for which a flow needs room, including the last one of a trial: a power of two.
func (s *source) room() int {
	most := s.inFlight + 1
	if s.schedule != nil {
		most = outstanding + 1
	}
	return 1 << bits.Len(uint(most-1))
}
