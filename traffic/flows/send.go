package flows

import (
	"encoding/binary"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// add adds a lane to the heap.
func (e *End) add(l *Lane) {
	e.lanes = append(e.lanes, l) // it has room for all
	for i := len(e.lanes) - 1; i > 0 && e.lanes[i].due < e.lanes[(i-1)/2].due; i = (i - 1) / 2 {
		e.lanes[i], e.lanes[(i-1)/2] = e.lanes[(i-1)/2], e.lanes[i]
	}
}

// sift moves the first lane of the heap, which is now due later, to its place.
//
//go:nosplit
func (e *End) sift() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(e.lanes) {
			return
		}
		if child+1 < len(e.lanes) && e.lanes[child+1].due < e.lanes[child].due {
			child++
		}
		if e.lanes[i].due <= e.lanes[child].due {
			return
		}
		e.lanes[i], e.lanes[child] = e.lanes[child], e.lanes[i]
		i = child
	}
}

// keepUp sends what is due, at most one turn of it, and returns when the next message is due. A late message is sent at
// once: schedules do not move. A message on a flow without room waits, and delays no other flow.
//
//go:nosplit
func (e *End) keepUp(now int64) int64 {
	for range turn {
		l := e.lanes[0]
		if l.due > now || l.due >= e.window.Close {
			break
		}
		for e.window.Open+l.Schedule.Due(l.ahead) <= now {
			l.ahead++
			e.waiting++
		}
		e.counts.backlog = max(e.counts.backlog, e.waiting-1)
		i := l.First + l.Schedule.Sender(l.turn)
		if l.turn++; l.turn == l.Count {
			l.turn = 0
		}
		l.next++
		l.due = e.window.Open + l.Schedule.Due(l.next)
		e.sift()
		if f := &e.flows[i]; !f.blocked && !f.broken {
			e.catchUp(i)
		}
	}
	return min(e.lanes[0].due, e.window.Close)
}

// catchUp sends the messages of a flow up to its lane's position.
//
//go:nosplit
func (e *End) catchUp(i int) {
	f := &e.flows[i]
	l := f.lane
	for !e.closing {
		number := f.next*uint64(l.Count) + uint64(l.Schedule.Turn(i-l.First))
		if number >= l.next {
			return
		}
		f.seq, f.since, f.size, f.at = f.next, l.Schedule.Due(number), l.Schedule.Size(number), 0
		f.next++
		if !e.push(i) {
			return
		}
	}
}

// resume continues after a flow had no room.
func (e *End) resume(i int) {
	f := &e.flows[i]
	f.blocked = false
	e.watcher.Output(i, e.sockets[i], false)
	if (f.size == 0 || e.push(i)) && f.lane != nil {
		e.catchUp(i)
	}
}

// push sends the rest of the message in progress, and reports whether it is all sent. A datagram that the kernel
// refuses twice is not sent: the first refusal may be the error of an earlier one.
//
//go:nosplit
func (e *End) push(i int) bool {
	f := &e.flows[i]
	refused := false
	for {
		if f.at < StreamHead { // all flows share the buffer
			e.write(f)
		}
		at := clock.Now()
		n, errno := e.sockets[i].Send(&e.out[f.at], f.size-f.at, sock.DontWait|sock.NoSignal)
		switch {
		case errno == 0:
			if f.at += n; f.at < f.size {
				continue
			}
			f.size = 0
			e.count(f, at)
			return true
		case errno == sock.Interrupted:
		case errno == sock.Again:
			f.blocked = true
			e.counts.blocked++
			e.watcher.Output(i, e.sockets[i], true)
			return false
		case e.Streams != nil:
			e.lose(i, errno)
			return false
		default:
			e.refused = errno
			if refused {
				f.size = 0
				if f.seq < answer {
					e.waiting--
				}
				return true
			}
			refused = true
		}
	}
}

// write writes the head of the message in progress.
//
//go:nosplit
func (e *End) write(f *flow) {
	traffic.PutHeader((*[traffic.HeaderSize]byte)(e.out), e.trial, f.seq, f.since)
	if e.Streams != nil {
		binary.LittleEndian.PutUint32(e.out[traffic.HeaderSize:StreamHead], uint32(f.size))
	}
}

// count counts a message that was passed to the kernel at a time.
//
//go:nosplit
func (e *End) count(f *flow, at int64) {
	if f.seq >= answer {
		return
	}
	e.sent++
	e.waiting--
	if f.since >= e.start {
		e.inside++
		e.recorders[traffic.Departure].Record(at - e.window.Open - f.since)
	}
}

// mark sends the end markers that are due, and returns when the next ones are due.
func (e *End) mark(now int64) int64 {
	if len(e.Out) == 0 || e.answered >= e.asks() {
		return e.window.Close + limit
	}
	if now < e.markerAt {
		return e.markerAt
	}
	if e.Streams == nil {
		for i := range e.flows {
			if f := &e.flows[i]; !f.over && !f.blocked {
				e.say(i, marker, e.markers)
			}
		}
		e.markers++
		e.markerAt = now + markerEvery
		return e.markerAt
	}
	for i := range e.flows {
		if f := &e.flows[i]; f.size > 0 && !f.broken { // it is still to be counted
			return e.window.Close + limit
		}
	}
	for i := range e.flows {
		if f := &e.flows[i]; !f.broken {
			e.markerAt = e.window.Close + limit // once
			e.say(i, marker, e.sent)
			break
		}
	}
	return e.window.Close + limit
}

// say sends a message about the end of the trial.
func (e *End) say(i int, what uint64, word int64) {
	f := &e.flows[i]
	if f.size > 0 || f.broken {
		return // its messages come first; for a stream without room, the other end gets no answer
	}
	f.seq, f.since, f.at, f.size = what, word, 0, DatagramHead
	if e.Streams != nil {
		f.size = StreamHead
	}
	e.push(i)
}
