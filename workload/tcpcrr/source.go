package tcpcrr

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// nap is the shortest time to the next connection for which the source sleeps, and how much earlier than due that sleep
// ends, in ns. Timers expire late (the slack of a thread's timers is 50 µs, prctl(2)).
const nap = 150_000

// countBusy is the number of local ports that a new connection could not use because an earlier one still had them.
const countBusy traffic.Count = "ports_busy"

type source struct {
	exchange
	home      *os.File // the container's namespace: a socket belongs to the namespace of the thread that makes it
	maker     *sock.Maker
	granted   sock.Facts
	remotes   []sock.Address
	first     uint16 // of the local ports
	locals    int    // number of local ports; 1: the kernel chooses
	recorders traffic.Recorders
	schedule  *traffic.Schedule // nil: the loop is closed
	trials    uint64
	cursor    int // the next local port, over all trials

	// State of one trial.
	next    uint64       // the first connection that has not begun
	round   int          // the next of the sink's ports
	stage   stage        // the last step of the last transaction
	errno   sock.Errno   // why it ended there; 0: the other end closed it, or time was up
	busy    int64        // countBusy
	backlog int64        // [traffic.CountBacklog]
	idle    *sock.Poller // waits only for time
}

// stage is a step of a transaction.
type stage int

// The steps. A failure is described by what the source was about to do.
const (
	making stage = iota
	connecting
	asking
	waiting
	parting
	exhausted // no local port was available
	tooLate   // the drain was over
	done
)

func (s stage) String() string {
	return [...]string{
		"open a socket", "connect", "send a request", "wait for a response", "wait for the close",
		"bind: every local port has a connection that has not ended", "", "",
	}[s]
}

// Recorders implements [traffic.Endpoint].
func (s *source) Recorders() traffic.Recorders { return s.recorders }

// Facts implements [traffic.Endpoint]. It returns what is granted to sockets like those of a trial.
func (s *source) Facts() (sock.Facts, error) { return s.granted, nil }

// Close implements [traffic.Endpoint].
func (s *source) Close() { _ = s.home.Close() }

// Prepare implements [traffic.Endpoint].
func (s *source) Prepare(uint64) {
	s.forget()
	s.recorders.Reset()
	if s.schedule != nil {
		s.schedule.Begin(s.trials)
	}
	s.trials++
	s.next, s.round, s.busy, s.backlog, s.errno, s.stage = 0, 0, 0, 0, 0, done
}

// Run implements [traffic.Endpoint]. The thread is in the container's namespace meanwhile. It enters before the window
// opens; only that allocates memory.
func (s *source) Run(trial uint64, w traffic.Window) {
	if err := netns.Here(int(s.home.Fd()), func() error {
		s.drive(trial, w)
		if s.schedule != nil {
			s.sample.Unsent = s.schedule.Unsent(s.next, w.Open, w)
		}
		return nil
	}); err != nil {
		s.sample.Failure = err.Error()
	}
}

// drive makes connections until the close, then the last one. (The functions of the loop are nosplit: without a stack
// check, there is no point at which the Go scheduler could take the thread.)
//
//go:nosplit
func (s *source) drive(trial uint64, w traffic.Window) {
	deadline := w.Close + limit
	begin := clock.Now()
	var ahead uint64
	for number := uint64(0); ; number++ {
		due, size := begin, s.request
		if s.schedule != nil {
			due, size = w.Open+s.schedule.Due(number), s.schedule.Size(number)
			begin = s.until(min(due, w.Close))
			for w.Open+s.schedule.Due(ahead) <= begin {
				ahead++
			}
			if begin < w.Close {
				s.backlog = max(s.backlog, int64(ahead-number)-1)
			}
		}
		if begin >= w.Close {
			s.next = number
			break
		}
		s.sample.Total++
		inside := due >= w.Start
		if inside {
			s.sample.Sent++
		}
		connected, end, ok := s.transact(mark(trial, false), size, deadline)
		if !ok {
			return
		}
		if inside {
			s.sample.Received++
			s.recorders[traffic.Latency].Record(end - due)
			s.recorders[traffic.Connect].Record(connected)
			if s.schedule != nil {
				s.recorders[traffic.Service].Record(end - begin)
				s.recorders[traffic.Departure].Record(begin - due)
			}
		}
		begin = end
	}
	s.transact(mark(trial, true), s.request, deadline)
}

// until waits until a time and returns the current time.
//
//go:nosplit
func (s *source) until(due int64) int64 {
	for {
		now := clock.Now()
		if now >= due {
			return now
		}
		if due-now > 2*nap {
			s.idle.Wait(due - now - nap)
		}
	}
}

// transact makes one transaction. It returns how long connecting took, and when the transaction was over.
//
//go:nosplit
func (s *source) transact(kind byte, size int, deadline int64) (connected, end int64, ok bool) {
	c, connected, ok := s.connect(deadline)
	if !ok {
		return 0, 0, false
	}
	s.head(kind, size)
	if !s.write(c, size, deadline) {
		return 0, 0, s.fail(c, asking, s.lost)
	}
	if !s.read(c, s.answer(size), deadline) {
		return 0, 0, s.fail(c, waiting, s.lost)
	}
	if s.sinkCloses && !s.hungUp(c, deadline) {
		return 0, 0, s.fail(c, parting, s.lost)
	}
	c.Drop()
	return connected, clock.Now(), true
}

// connect makes a socket that is connected to the next of the sink's ports, from the first free local port, and returns
// how long connect(2) took.
//
//go:nosplit
func (s *source) connect(deadline int64) (sock.Socket, int64, bool) {
	for range s.locals {
		port := s.port()
		c, errno := s.maker.Make(port)
		if errno == sock.AddressInUse {
			s.busy++
			s.cursor++
			continue
		}
		if errno != 0 {
			return c, 0, s.fail(c, making, errno)
		}
		start := clock.Now()
		for errno = s.establish(c); errno == sock.Interrupted || errno == sock.Connecting ||
			errno == sock.StillConnecting; errno = s.establish(c) {
			if clock.Now() > deadline {
				return c, 0, s.fail(c, tooLate, 0)
			}
		}
		if errno == 0 {
			took := clock.Now() - start
			if s.round++; s.round == len(s.remotes) {
				s.round = 0
				s.cursor++ // with the next local port, all of the sink's ports are unused
			}
			return c, took, true
		}
		if errno != sock.AddressUnavailable {
			return c, 0, s.fail(c, connecting, errno)
		}
		c.Drop()
		s.busy++
		s.cursor++
	}
	return sock.Socket{FD: -1}, 0, s.fail(sock.Socket{FD: -1}, exhausted, 0)
}

//go:nosplit
func (s *source) establish(c sock.Socket) sock.Errno { return c.ConnectTo(&s.remotes[s.round]) }

// port returns the next local port; 0 if the kernel chooses.
//
//go:nosplit
func (s *source) port() uint16 {
	if s.locals == 1 {
		return 0
	}
	if s.cursor >= s.locals {
		s.cursor = 0
	}
	return s.first + uint16(s.cursor)
}

// fail records where a transaction ended, closes its socket and returns false. Waiting until the drain was over is not
// a failure.
//
//go:nosplit
func (s *source) fail(c sock.Socket, at stage, errno sock.Errno) bool {
	s.stage, s.errno = at, errno
	if s.late {
		s.stage = tooLate
	}
	if c.FD >= 0 {
		c.Drop()
	}
	return false
}

// Collect implements [traffic.Collector]. It describes the errors that the loop has recorded.
func (s *source) Collect() {
	s.sample.Count(countBusy, s.busy)
	s.sample.Count(traffic.CountBacklog, s.backlog)
	switch {
	case s.sample.Failure != "" || s.sample.Span == 0:
	case s.stage == tooLate && s.sample.Received > 0:
		s.sample.Doubt = undrained
	case s.stage == tooLate:
		s.sample.Failure = "no transaction was complete by the end of the trial"
	case s.stage == exhausted:
		s.sample.Failure = fmt.Sprintf("%s (%d)", s.stage, s.locals)
	case s.stage != done && s.errno == 0:
		s.sample.Failure = fmt.Sprintf("%s: the sink closed the connection", s.stage)
	case s.stage != done:
		s.sample.Failure = fmt.Sprintf("%s: %v", s.stage, s.errno)
		if sock.OutOfDescriptors(s.errno) {
			s.sample.Failure += " (hint: raise the limit of open files, ulimit -n)"
		}
	case s.sample.Sent == 0:
		s.sample.Failure = "no connection was started inside the window"
	}
}

// init makes the resources of a source. The calling thread must be in the container's namespace.
func (s *source) init(spec workload.Spec) error {
	s.idle = sock.NewPoller(0)
	var err error
	if s.schedule, err = spec.Schedule(s.request, s.header, largest); err != nil {
		return err
	}
	longest := s.request
	if workload.Varied(spec.Params) {
		longest = largest
	}
	s.in, s.out = make([]byte, readSize), traffic.Payload(longest)
	s.recorders[traffic.Latency], s.recorders[traffic.Connect] = traffic.NewRecorder(), traffic.NewRecorder()
	if s.schedule != nil {
		s.recorders[traffic.Service], s.recorders[traffic.Departure] = traffic.NewRecorder(), traffic.NewRecorder()
	}
	for i := range min(spec.Params.Count("ports"), max(1, spec.RemotePorts)) {
		a := sock.NewAddress(spec.Remote)
		a.SetPort(spec.Remote.Port() + uint16(i))
		s.remotes = append(s.remotes, a)
	}
	local := spec.Local
	if s.locals = min(spec.LocalPorts, mostPairs/len(s.remotes)); s.locals > 1 {
		s.first = local.Port()
	} else {
		s.locals = 1
		local = netip.AddrPortFrom(local.Addr(), 0)
	}
	s.maker, s.granted, err = sock.NewMaker(local, options(spec), patience)
	return err
}
