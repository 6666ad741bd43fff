package tcpcrr

import (
	"errors"
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

type sink struct {
	exchange
	listeners []sock.Socket
	poller    *sock.Poller
	stall     workload.Stall
	plant     traffic.Delay

	// State of one trial.
	broke   bool // a connection of this trial was lost, or
	accepts bool // none could be accepted
	errno   sock.Errno
	planted int64 // [traffic.CountPlanted]
}

// Recorders implements [traffic.Endpoint]. A sink does not measure durations.
func (s *sink) Recorders() traffic.Recorders { return traffic.Recorders{} }

// Facts implements [traffic.Endpoint]. Accepted connections have the same options as the listening sockets.
func (s *sink) Facts() (sock.Facts, error) {
	f, err := s.listeners[0].Facts()
	f.MSS = 0 // there is none before there is a connection
	return f, err
}

// Close implements [traffic.Endpoint].
func (s *sink) Close() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// Prepare closes the connections that an earlier trial left behind.
func (s *sink) Prepare(uint64) {
	s.forget()
	s.broke, s.accepts, s.errno, s.planted = false, true, 0, 0
	for some := true; some; {
		some = false
		for i, l := range s.listeners {
			s.poller.Watch(i, l, true, false)
		}
		s.poller.Wait(0)
		for i, l := range s.listeners {
			if read, _, _ := s.poller.Ready(i); !read {
				continue
			}
			if c, errno := l.AcceptNext(); errno == 0 {
				c.Drop()
				s.sample.Late++
				some = true
			}
		}
	}
}

// Run accepts connections one by one. It takes the listening sockets in the order in which the source uses them. It
// ends after the last connection of the trial, or when that cannot arrive any more.
//
// Accepting blocks. Checking first with ppoll(2) would be one more call for each connection: 1.9 µs instead of 1.3 µs
// if one is already there, out of the 17 µs that one thread takes to make, connect, accept and close it on loopback
// (Linux 6.18).
//
//go:nosplit
func (s *sink) Run(trial uint64, w traffic.Window) {
	deadline := w.Close + limit
	for next := 0; ; {
		c, errno := s.listeners[next].AcceptNext()
		switch errno {
		case 0:
		case sock.Again, sock.Interrupted, sock.Aborted:
			if clock.Now() > deadline {
				s.sample.Doubt = undrained
				return
			}
			continue
		default:
			s.accepts, s.errno = false, errno
			return
		}
		got := s.serve(c, trial, w.Open, deadline)
		c.Drop()
		if got != last && clock.Now() > deadline { // connections keep arriving
			s.sample.Doubt = undrained
			return
		}
		switch got {
		case foreign:
			s.sample.Late++
		case lost:
			if s.late || clock.Now() >= w.Close { // the source has abandoned it
				s.sample.Doubt = undrained
			} else {
				s.broke = true
			}
			return
		case last:
			return
		case one:
			s.sample.Total++
			if next++; next == len(s.listeners) {
				next = 0
			}
		}
	}
}

// The outcome of a connection.
type outcome int

const (
	one     outcome = iota // a transaction
	last                   // the last one of the trial
	foreign                // it belonged to another trial
	lost                   // it ended early
)

// serve handles one transaction.
//
//go:nosplit
func (s *sink) serve(c sock.Socket, trial uint64, open, deadline int64) outcome {
	size, known := s.header, false
	for got := 0; got < size; {
		n, errno := c.Recv(&s.in[got], len(s.in)-got, 0)
		if errno != 0 {
			if !s.again(errno, deadline) {
				return lost
			}
			continue
		}
		if n == 0 {
			s.lost = 0
			return lost
		}
		if got += n; known || got < s.header {
			continue
		}
		if s.in[0]|1 != mark(trial, true) {
			return foreign
		}
		known, size = true, s.request
		if s.header == lengthSize {
			size = int(s.in[1]) | int(s.in[2])<<8 | int(s.in[3])<<16
		}
		if size > len(s.in) || s.answer(size) > len(s.out) {
			return foreign // not a valid length of a request
		}
	}
	if s.stall.Every > 0 {
		traffic.StandStill(open, s.stall.Every, s.stall.For)
	}
	s.planted += s.plant.Spin()
	if !s.write(c, s.answer(size), deadline) || !s.sinkCloses && !s.hungUp(c, deadline) {
		return lost
	}
	if s.in[0] == mark(trial, true) {
		return last
	}
	return one
}

// Collect implements [traffic.Collector]. It describes the errors that the loop has recorded.
func (s *sink) Collect() {
	s.sample.Count(traffic.CountPlanted, s.planted)
	switch {
	case s.sample.Failure != "":
	case !s.accepts:
		s.sample.Failure = "accept: " + s.errno.Error()
		if sock.OutOfDescriptors(s.errno) {
			s.sample.Failure += " (hint: raise the limit of open files, ulimit -n)"
		}
	case s.broke && s.lost == 0:
		s.sample.Failure = "the source closed a connection before its transaction was complete"
	case s.broke:
		s.sample.Failure = "a connection broke: " + s.lost.Error()
	}
}

// init makes the resources of a sink. The calling thread must be in the container's namespace.
func (s *sink) init(spec workload.Spec) error {
	s.stall, s.plant = spec.Stall, traffic.NewDelay(spec.Plant)
	request := s.request
	if workload.Varied(spec.Params) {
		request = largest
	}
	s.in, s.out = make([]byte, request), traffic.Payload(max(request, s.response))
	n := min(spec.Params.Count("ports"), max(1, spec.LocalPorts))
	s.poller = sock.NewPoller(n)
	for i := range n {
		at := netip.AddrPortFrom(spec.Local.Addr(), spec.Local.Port()+uint16(i))
		l, err := sock.Stream(at, "")
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, l)
		if err := errors.Join(l.Set(options(spec)), l.SetTimeout(patience), l.Listen()); err != nil {
			return err
		}
	}
	return nil
}
