package flows

import (
	"encoding/binary"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// take receives the datagrams of a flow, at most one turn of them.
//
//go:nosplit
func (e *End) take(i int) {
	for range turn {
		n, errno := e.sockets[i].Recv(&e.in[0], len(e.in), sock.DontWait)
		if errno != 0 {
			if errno != sock.Again && errno != sock.Interrupted {
				e.refused = errno // the error of an earlier datagram
				continue
			}
			return
		}
		if n < traffic.HeaderSize {
			e.sample.Late++
			continue
		}
		trial, seq, since := traffic.Header((*[traffic.HeaderSize]byte)(e.in))
		e.came(i, trial, seq, since, n)
	}
}

// takeStream receives the data of a stream.
//
//go:nosplit
func (e *End) takeStream(i int) {
	n, errno := e.sockets[i].Recv(&e.in[0], len(e.in), sock.DontWait)
	switch {
	case errno == sock.Again || errno == sock.Interrupted:
		return
	case errno != 0 || n == 0:
		e.lose(i, errno)
		return
	}
	e.parse(i, n)
}

// parse parses n bytes from a stream.
//
//go:nosplit
func (e *End) parse(i, n int) {
	f := &e.flows[i]
	for at := 0; at < n; {
		if f.have < StreamHead {
			part := min(StreamHead-f.have, n-at)
			copy(f.head[f.have:], e.in[at:at+part])
			f.have += part
			at += part
			if f.have < StreamHead {
				return
			}
			f.left = int(binary.LittleEndian.Uint32(f.head[traffic.HeaderSize:])) - StreamHead
			if f.left < 0 || f.left > max(e.Longest, StreamHead)-StreamHead {
				e.lose(i, 0) // not a valid length of a message
				return
			}
		} else {
			part := min(f.left, n-at)
			f.left -= part
			at += part
		}
		if f.left == 0 {
			f.have = 0
			trial, seq, since := traffic.Header((*[traffic.HeaderSize]byte)(f.head[:]))
			e.came(i, trial, seq, since, int(binary.LittleEndian.Uint32(f.head[traffic.HeaderSize:])))
		}
	}
}

// came handles a complete message.
//
//go:nosplit
func (e *End) came(i int, trial, seq uint64, since int64, size int) {
	f := &e.flows[i]
	switch {
	case trial != e.trial:
		e.sample.Late++
		return
	case seq >= answer:
		e.over(i, seq, since)
		return
	case !e.Hears:
		e.sample.Late++
		return
	}
	now := clock.Now() - e.window.Open
	inside := since >= e.start
	if e.counters != nil {
		switch e.counters[i].Note(seq) {
		case traffic.InOrder:
		case traffic.Reordered:
			if inside {
				e.counts.reordered++
			}
		case traffic.Duplicate:
			if inside {
				e.counts.repeated++
			}
			return
		case traffic.TooLate:
			e.sample.Late++
			return
		}
	}
	e.heard++
	if e.Hearer != nil {
		e.message = Message{Flow: i, Seq: seq, Size: size, Due: since, Came: now}
		e.Hearer.Heard(&e.message)
	}
	apart := e.FirstApart && seq == 0
	if apart && !e.OwnClock {
		e.counts.first += now - since
		e.firsts++
	}
	if inside {
		e.sample.Received++
		e.sample.Bytes += int64(size)
		if r := e.recorders[traffic.OneWay]; r != nil && !apart {
			r.Record(now - since)
		}
		if f.known {
			d := now - since - f.transit
			e.counts.jitter += max(d, -d)
		} else {
			f.known = true
			e.counts.flows++
		}
		f.transit = now - since
	}
	if e.told >= 0 && e.heard == e.told {
		e.say(e.toldOn, answer, 0)
	}
}

// over handles an end marker, or the answer to one.
func (e *End) over(i int, seq uint64, word int64) {
	f := &e.flows[i]
	switch {
	case seq == answer && !f.over:
		f.over = true
		e.answered++
	case seq == answer:
	case e.Streams != nil:
		e.told, e.toldOn = word, i
		if e.heard >= e.told {
			e.say(i, answer, 0)
		}
	default:
		if !f.ended {
			f.ended = true
			e.ended++
		}
		e.say(i, answer, word) // if it is lost, the other end reports a doubt
	}
}

// lose records that a connection broke, and why: 0 if the other end has closed it or sends data that is not a message.
func (e *End) lose(i int, errno sock.Errno) {
	f := &e.flows[i]
	if f.broken {
		return
	}
	f.broken = true
	e.broken++
	if errno != 0 {
		e.refused = errno
	}
	e.watcher.Forget(e.sockets[i])
}
