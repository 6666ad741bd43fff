package tcprr

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

type sink struct {
	endpoint
	listener sock.Socket
	plant    traffic.Delay
	streams  []stream
	over     int // number of streams whose last request was answered
}

// stream is the read position of one connection.
type stream struct {
	head uint32 // the start of a request, as far as it has arrived
	have int    // bytes in head
	size int    // bytes of the request
	left int    // missing bytes of the request
	over bool   // its last request was answered
}

// Recorders implements [traffic.Endpoint]. A sink does not measure durations.
func (s *sink) Recorders() traffic.Recorders { return traffic.Recorders{} }

// Run answers requests until the last one of each flow, or until it cannot arrive any more.
func (s *sink) Run(_ uint64, w traffic.Window) {
	if s.Broken {
		return
	}
	if !s.serve(w) {
		s.giveUp(w)
	}
}

//go:nosplit
func (s *sink) serve(w traffic.Window) bool {
	flags := sock.DontWait
	alone := len(s.conns) == 1 && !s.spin
	if alone {
		flags = 0
	}
	for looks := 0; s.over < len(s.streams); looks++ {
		if !s.spin && !alone {
			for i, c := range s.conns {
				s.poller.Watch(i, c, !s.streams[i].over, false)
			}
			s.poller.Wait(int64(patience))
		}
		quiet := true
		for i := range s.conns {
			if s.streams[i].over {
				continue
			}
			if !s.spin && !alone {
				if read, _, told := s.poller.Ready(i); !read && !told {
					continue
				}
			}
			n, errno := s.conns[i].Recv(&s.in[0], len(s.in), flags)
			switch {
			case errno == 0 && n > 0:
				quiet = false
				if !s.take(i, n, w) {
					return false
				}
			case errno != sock.Again && errno != sock.Interrupted:
				return s.lost(errno)
			}
		}
		// also if requests keep arriving
		if (!s.spin && (quiet || !alone) || looks%looksPerClock == 0) && clock.Now() > w.Close+limit {
			return false
		}
	}
	return true
}

// take parses n bytes from stream i and answers the complete requests.
//
//go:nosplit
func (s *sink) take(i, n int, w traffic.Window) bool {
	t := &s.streams[i]
	for at := 0; at < n; {
		if t.over {
			return false // bytes after the last request: the source is in another trial
		}
		if t.have < s.header {
			t.head |= uint32(s.in[at]) << (8 * t.have)
			t.have++
			at++
			if t.have < s.header {
				continue
			}
			t.size = s.request
			if s.header == lengthSize {
				t.size = int(t.head >> 8)
			}
			t.left = t.size - s.header
		} else {
			part := min(n-at, t.left)
			at += part
			t.left -= part
		}
		if t.left > 0 {
			continue
		}
		if t.left < 0 {
			return false // not a valid length of a request
		}
		if !s.reply(i, s.answer(t.size), w) {
			return false
		}
		if byte(t.head) == last {
			t.over = true
			s.over++
		} else {
			s.sample.Total++
		}
		t.head, t.have = 0, 0
	}
	return true
}

// reply sends one response. It may block: the source never blocks before it has read what has arrived.
//
//go:nosplit
func (s *sink) reply(i, size int, w traffic.Window) bool {
	if size > len(s.out) {
		return false
	}
	if s.spec.Stall.Every > 0 {
		traffic.StandStill(w.Open, s.spec.Stall.Every, s.spec.Stall.For)
	}
	s.planted += s.plant.Spin()
	return s.write(s.conns[i], size, w.Close+limit)
}
