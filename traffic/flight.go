package traffic

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
)

// flight keeps the wanted number of requests in flight: an answer, or a lost one, makes room for the next request.
//
//go:nosplit
func (e *Exchange) flight() {
	w := e.window
	seq := uint64(0)
	looks := 0
	for now := w.Open; now < w.Close; {
		for e.flying < e.InFlight {
			if now = clock.Now(); now >= w.Close || !e.request(seq, now, now, len(e.Out)) {
				break
			}
			seq++
		}
		n, errno := e.wait()
		looks++
		idle := errno != 0 && !e.Spin
		if errno == 0 {
			now = e.take(n)
		}
		if idle || looks%looksPerClock == 0 {
			now = clock.Now()
			e.expire(seq, now-answerLimit)
		}
	}
}

// wait receives a datagram. Unless it spins, it sleeps until there is one.
//
//go:nosplit
func (e *Exchange) wait() (int, sock.Errno) {
	if !e.Spin && !e.many {
		n, errno := e.Flows[e.flow].Recv(&e.In[0], len(e.In), 0)
		e.note(errno)
		return n, errno
	}
	n, errno := e.look()
	if errno != 0 && !e.Spin {
		e.sleep(int64(Patience))
		n, errno = e.look()
	}
	return n, errno
}

// expire gives up requests that were sent before a time. If their answers arrive, they are late.
//
//go:nosplit
func (e *Exchange) expire(next uint64, before int64) {
	for ; e.oldest < next; e.oldest++ {
		r := &e.asked[e.oldest%asked]
		if r.mark != e.base+e.oldest+1 {
			continue
		}
		if r.sent > before {
			return
		}
		r.mark = 0
		e.flying--
	}
}

// paced sends each request when it is due, whatever is in flight. A late request is sent at once: the schedule does not
// move, and the latency includes the delay before sending. It returns the number of the first unsent request.
//
//go:nosplit
func (e *Exchange) paced() (seq uint64) {
	w := e.window
	ahead := uint64(0) // the first that is not due yet
	due := w.Open + e.Schedule.Due(0)
	for now := clock.Now(); now < w.Close; {
		if e.flying > 0 {
			if n, errno := e.look(); errno == 0 {
				e.take(n)
			}
			now = clock.Now()
		}
		if now < due {
			if due-now > 2*nap {
				e.sleep(min(due, w.Close) - now - nap)
			}
			now = clock.Now()
			continue
		}
		if due >= w.Close {
			break
		}
		for ahead <= seq || w.Open+e.Schedule.Due(ahead) <= now && ahead-seq < asked {
			ahead++
		}
		e.backlog = max(e.backlog, int64(ahead-seq-1))
		if e.request(seq, due, now, e.OutAt+e.Schedule.Size(seq)) {
			if seq >= e.apart && due >= w.Start {
				e.Recorders[Departure].Record(now - due)
			}
			seq++
			due = w.Open + e.Schedule.Due(seq)
		}
		now = clock.Now()
	}
	for now := clock.Now(); now < w.Close; now = clock.Now() { // the window has a fixed length, whatever is due
		if n, errno := e.look(); errno == 0 {
			e.take(n)
			continue
		}
		e.sleep(w.Close - now)
	}
	return seq
}

// request sends a request that was due at a time, and records that it waits for its answer. The older request in the
// same place counts as lost.
//
//go:nosplit
func (e *Exchange) request(seq uint64, due, now int64, size int) bool {
	e.turn()
	if !e.send(seq, due-e.window.Open, size) {
		return false
	}
	e.Sample.Total++
	if seq >= e.apart && due >= e.window.Start {
		e.Sample.Sent++
	}
	r := &e.asked[seq%asked]
	if r.mark <= e.base {
		e.flying++
	}
	r.mark, r.due, r.sent = e.base+seq+1, due, now
	return true
}

// take counts a datagram of n bytes if it is the answer to a waiting request. It returns the time.
//
//go:nosplit
func (e *Exchange) take(n int) int64 {
	now := clock.Now()
	trial, seq, ok := e.header(n)
	if !ok || trial != e.trial || seq == Marker || len(e.asked) == 0 {
		e.Sample.Late++
		return now
	}
	r := &e.asked[seq%asked]
	if r.mark != e.base+seq+1 {
		e.Sample.Late++
		return now
	}
	r.mark, e.heard = 0, true
	e.flying--
	if seq < e.apart {
		e.first = now - r.due
		return now
	}
	if r.due >= e.window.Start && e.wrong {
		e.Sample.Errors++
	} else if r.due >= e.window.Start {
		e.Sample.Received++
		e.Recorders[Latency].Record(now - r.due)
		if service := e.Recorders[Service]; service != nil {
			service.Record(now - r.sent)
		}
	}
	return now
}
