package udprr

import (
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// sink answers requests.
type sink struct {
	sock    sock.Socket
	in      []byte
	answer  int          // bytes of an answer; 0: as many as in the request
	anyone  bool         // requests come from more than one port: the socket is not connected
	from    sock.Address // source of the last one
	spin    bool
	compact bool
	sample  traffic.Sample
	planted int64 // [traffic.CountPlanted]

	stamps      bool
	came        int64  // ns of real time: arrival of the request
	stamped     uint64 // the number of the previous one
	since, left int64  // when that arrived, and when its answer left; 0: unknown

	stall  workload.Stall
	plant  traffic.Delay
	dither traffic.Dither
	alone  bool // it spins, and each request leaves when the answer to the last one is there
}

// Sample implements [traffic.Endpoint].
func (s *sink) Sample() *traffic.Sample { return &s.sample }

// Recorders implements [traffic.Endpoint].
func (s *sink) Recorders() traffic.Recorders { return traffic.Recorders{} }

// Facts implements [traffic.Endpoint].
func (s *sink) Facts() (sock.Facts, error) { return s.sock.Facts() }

// Close implements [traffic.Endpoint].
func (s *sink) Close() { s.sock.Close() }

// Collect implements [traffic.Collector].
func (s *sink) Collect() { s.sample.Count(traffic.CountPlanted, s.planted) }

// Prepare discards what an earlier trial left in the socket.
func (s *sink) Prepare(uint64) {
	s.sample, s.planted = traffic.Sample{Late: s.sock.Drain()}, 0
	if s.alone {
		s.dither.Measure(func() {
			if _, errno := s.receive(sock.DontWait); errno == 0 {
				s.sample.Late++
			}
		})
	}
	if s.stamps {
		s.stamped = traffic.NoStamps
		s.sock.Departed(0)
	}
}

// Run answers requests until the end marker has arrived, or cannot arrive any more.
func (s *sink) Run(trial uint64, w traffic.Window) {
	const limit = int64(traffic.DrainLimit)
	flags := 0
	if s.spin {
		flags = sock.DontWait
	}
	for looks := 1; ; looks++ {
		n, errno := s.receive(flags)
		if (errno != 0 && !s.spin || looks%looksPerClock == 0) && clock.Now() > w.Close+limit {
			s.sample.Doubt = traffic.MarkerLost
			return
		}
		if errno != 0 {
			continue
		}
		seq, ok := s.belongs(trial, n, w)
		if !ok {
			s.sample.Late++
			continue
		}
		if s.stall.Every > 0 {
			traffic.StandStill(w.Open, s.stall.Every, s.stall.For)
		}
		s.planted += s.plant.Spin()
		s.reply(n, seq) // an answer that cannot be sent is lost, and the source counts it
		if seq == traffic.Marker {
			return
		}
		s.sample.Total++
		if s.alone {
			s.dither.Wait()
		}
	}
}

// belongs returns the number of a request of n bytes, and whether it belongs to this trial. A request without a header
// does not show that: it counts as belonging, unless it is an end marker that arrives before the end.
//
//go:nosplit
func (s *sink) belongs(trial uint64, n int, w traffic.Window) (seq uint64, ok bool) {
	if s.compact {
		if n == 0 || s.in[0] != traffic.CompactMarker {
			return 0, n > 0
		}
		return traffic.Marker, clock.Now() >= w.Close
	}
	if n < traffic.HeaderSize {
		return 0, false
	}
	got, seq, _ := traffic.Header((*[traffic.HeaderSize]byte)(s.in))
	return seq, got == trial
}

// receive receives a request.
//
//go:nosplit
func (s *sink) receive(flags int) (int, sock.Errno) {
	switch {
	case s.stamps:
		return s.sock.RecvStamped(&s.in[0], len(s.in), flags, &s.came)
	case s.anyone:
		return s.sock.RecvFrom(&s.in[0], len(s.in), flags, &s.from)
	default:
		return s.sock.Recv(&s.in[0], len(s.in), flags)
	}
}

// reply sends the answer to a request of n bytes: the same bytes, up to the length of an answer.
//
//go:nosplit
func (s *sink) reply(n int, seq uint64) {
	if s.answer > 0 {
		n = s.answer
	}
	switch {
	case s.stamps:
		s.stampedReply(n, seq)
	case s.anyone:
		s.sock.SendTo(&s.in[0], n, 0, &s.from)
	default:
		s.sock.Send(&s.in[0], n, 0)
	}
}

// stampedReply writes the timestamps of the previous exchange into an answer, and finds out those of this one.
//
//go:nosplit
func (s *sink) stampedReply(n int, seq uint64) {
	came := s.came
	if n >= traffic.StampsSize { // the end marker is shorter
		before := s.stamped
		if s.since == 0 || s.left == 0 {
			before = traffic.NoStamps
		}
		traffic.PutStamps((*[traffic.StampsSize]byte)(s.in), before, s.since, s.left)
	}
	s.sock.Send(&s.in[0], n, 0)
	s.stamped, s.since, s.left = seq, came, s.sock.Departed(came)
}
