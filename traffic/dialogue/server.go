package dialogue

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

// ServerSpec configures a server.
type ServerSpec struct {
	Local   netip.AddrPort
	Options sock.Options // of the listening socket, which connections inherit; NoDelay is always set
	Longest int          // largest length of a request in bytes; 0: 64 KiB. A longer one ends the connection
	Most    int          // connections that it holds; 0: any number. Further ones are closed when they are accepted

	Answerer Answerer

	// For studies: the server stands still at intervals, and spins before each answer.
	StallEvery, StallFor time.Duration
	Plant                time.Duration
}

const (
	// backlog is the number of connections that may wait to be accepted, if the machine allows that many.
	backlog = 4096

	// MostGathered is the largest number of bytes of answers to one connection that are gathered before they are sent.
	MostGathered = 256 << 10

	// linger is how long the server waits for another client when all have left after the close, in ns. A client that
	// connects anew for each request is gone for a moment before it says farewell, longer if other work has its CPU.
	linger = limit / 2

	listener = -1 // the number of the listening socket among the watched ones
)

// Server is the sink's end of a dialogue: a [traffic.Endpoint] and a [traffic.Collector].
type Server struct {
	spec    ServerSpec
	socket  sock.Socket // the listening socket
	watcher *sock.Watcher
	plant   traffic.Delay
	peers   []peer
	free    []int // unused numbers of peers
	in, out []byte
	sample  traffic.Sample
	planted int64        // [traffic.CountPlanted]
	tcp     sock.TCPInfo // the kernel's counters of the connections in the last trial

	// State of one trial.
	open  int64 // ns
	over  bool
	ended bool       // a connection
	errno sock.Errno // why no more connections could be accepted
}

// peer is one connection.
type peer struct {
	sock.Socket
	in   []byte // requests that are incomplete or not answered yet
	have int    // bytes of them
	out  []byte // what the socket did not take yet,
	sent int    // of which so many bytes are sent
	last bool   // nothing more is read; closed when out is sent

	counted sock.TCPInfo // up to the last trial
}

// queued reports whether there is something to send.
//
//go:nosplit
func (p *peer) queued() bool { return p.sent < len(p.out) }

// NewServer makes a listening server. The calling thread must be in the container's network namespace.
func NewServer(spec ServerSpec) (*Server, error) {
	if spec.Longest == 0 {
		spec.Longest = readSize / 2
	}
	s := &Server{
		spec: spec, plant: traffic.NewDelay(spec.Plant), in: traffic.Buffer(readSize),
		out: traffic.Buffer(MostGathered)[:0], socket: sock.Socket{FD: -1},
	}
	var err error
	if s.watcher, err = sock.NewWatcher(); err != nil {
		return nil, err
	}
	if err = s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) listen() error {
	var err error
	if s.socket, err = sock.Stream(s.spec.Local, ""); err != nil {
		return err
	}
	o := s.spec.Options
	o.NoDelay = true
	if err := s.socket.Set(o); err != nil {
		return err
	}
	if err := s.socket.ListenFor(backlog); err != nil {
		return err
	}
	return s.watcher.Add(listener, s.socket, false)
}

// Sample implements [traffic.Endpoint].
func (s *Server) Sample() *traffic.Sample { return &s.sample }

// Recorders implements [traffic.Endpoint]. A server does not measure durations.
func (s *Server) Recorders() traffic.Recorders { return traffic.Recorders{} }

// Facts implements [traffic.Endpoint]. Accepted connections have the same options as the listening socket.
func (s *Server) Facts() (sock.Facts, error) {
	f, err := s.socket.Facts()
	f.MSS = 0 // there is none before there is a connection
	return f, err
}

// Close implements [traffic.Endpoint].
func (s *Server) Close() {
	for i := range s.peers {
		s.peers[i].Close()
	}
	s.socket.Close()
	s.watcher.Close()
}

// Prepare implements [traffic.Endpoint]. It closes connections that have ended, or that have sent something before
// their trial: they belong to an earlier one.
func (s *Server) Prepare(uint64) {
	s.sample, s.planted, s.tcp = traffic.Sample{}, 0, sock.TCPInfo{}
	s.over, s.errno = false, 0
	for i := range s.peers {
		if p := &s.peers[i]; p.FD >= 0 && (p.have > 0 || p.queued() || p.last) {
			s.shut(i)
		}
	}
	for n := s.watcher.Wait(0); n > 0 && s.errno == 0; n = s.watcher.Wait(0) {
		for k := range n {
			if i, _, _ := s.watcher.Event(k); i == listener {
				s.accept()
			} else if s.peers[i].FD >= 0 {
				s.shut(i)
			}
		}
	}
	s.ended = false
}

// Run answers until the client says farewell or, if it does not, until the drain is over, or until all clients have
// left after the close.
func (s *Server) Run(_ uint64, w traffic.Window) {
	deadline := w.Close + limit
	s.open = w.Open
	for !s.over && s.errno == 0 {
		now := clock.Now()
		if now > deadline {
			return
		}
		sleep := min(deadline-now+1, patience)
		left := now >= w.Close && len(s.peers) > 0 && len(s.free) == len(s.peers)
		if left {
			sleep = min(sleep, linger)
		}
		n := s.watcher.Wait(sleep)
		if left && n == 0 && clock.Now()-now >= sleep { // a signal, as of Go's scheduler, ends the wait early
			return
		}
		for k := range n {
			i, read, write := s.watcher.Event(k)
			switch {
			case i == listener:
				s.accept()
			case s.peers[i].FD < 0: // it has ended since
			case s.peers[i].queued():
				if write && s.resume(i) {
					s.work(i, s.peers[i].in, s.peers[i].have)
				}
			case read:
				if in, n := s.hear(i); n > 0 {
					s.work(i, in, n)
				}
			}
		}
	}
}

// Collect implements [traffic.Collector]. It describes the errors that the loop has recorded. It adds the kernel's
// counters of the connections if all of them still exist.
func (s *Server) Collect() {
	if s.tcp.Connections == 0 && !s.ended {
		for i := range s.peers {
			if p := &s.peers[i]; p.FD >= 0 && !count(p.Socket, &p.counted, &s.tcp) {
				break
			}
		}
	}
	s.sample.Count(traffic.CountPlanted, s.planted)
	put(&s.sample, s.tcp)
	if s.errno == 0 || s.sample.Failure != "" {
		return
	}
	s.sample.Failure = fmt.Sprintf("accept: %v", s.errno)
	if sock.OutOfDescriptors(s.errno) {
		s.sample.Failure += " (hint: raise the limit of open files, ulimit -n)"
	}
}

// accept accepts the waiting connections.
//
//go:nosplit
func (s *Server) accept() {
	for {
		c, errno := s.socket.AcceptNext()
		switch errno {
		case 0:
		case sock.Interrupted, sock.Aborted:
			continue
		case sock.Again:
			return
		default:
			s.errno = errno
			return
		}
		if s.spec.Most > 0 && len(s.peers)-len(s.free) >= s.spec.Most {
			c.Drop()
			continue
		}
		i := s.seat()
		s.peers[i].Socket = c
		if err := s.watcher.Add(i, c, false); err != nil {
			s.shut(i)
			s.errno = reason(err)
			return
		}
	}
}

// seat returns an unused number of a peer.
func (s *Server) seat() int {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.peers = append(s.peers, peer{})
	if cap(s.free) < len(s.peers) { // there is always room for all
		s.free = make([]int, 0, cap(s.peers))
	}
	return len(s.peers) - 1
}

// shut closes a connection. The next one reuses its buffers.
//
//go:nosplit
func (s *Server) shut(i int) {
	p := &s.peers[i]
	p.Drop()
	p.FD, p.have, p.sent, p.last, p.counted = -1, 0, 0, false, sock.TCPInfo{}
	s.ended = true
	p.out = p.out[:0]
	s.free = append(s.free, i)
}

// hear reads data from a connection, and returns it together with what is not answered yet.
//
//go:nosplit
func (s *Server) hear(i int) (in []byte, have int) {
	p := &s.peers[i]
	in = s.in
	if p.have > 0 {
		in = p.in
	}
	n, errno := p.Recv(&in[p.have], len(in)-p.have, sock.DontWait)
	switch {
	case errno == sock.Again || errno == sock.Interrupted:
	case errno != 0 || n == 0:
		s.shut(i)
	case p.last: // nothing is read any more
	default:
		return in, p.have + n
	}
	return nil, 0
}

// resume sends the rest of the answers to a connection. It reports whether they are all sent and there are more
// requests to answer.
//
//go:nosplit
func (s *Server) resume(i int) bool {
	p := &s.peers[i]
	n, errno := p.Send(&p.out[p.sent], len(p.out)-p.sent, sock.DontWait|sock.NoSignal)
	switch errno {
	case 0:
		p.sent += n
	case sock.Again, sock.Interrupted:
		return false
	default:
		s.shut(i)
		return false
	}
	if p.queued() {
		return false
	}
	p.out, p.sent = p.out[:0], 0
	if p.last {
		s.shut(i)
		return false
	}
	s.watcher.Output(i, p.Socket, false)
	return p.have > 0
}

// work answers the requests in the first n bytes of in, which belong to one connection, and keeps what cannot be
// answered yet.
//
//go:nosplit
func (s *Server) work(i int, in []byte, n int) {
	p := &s.peers[i]
	at, room := 0, 0
	for at < n && !p.last && !p.queued() {
		out := s.out[:0]
		then := Next
		for at < n && then == Next && len(out) < MostGathered {
			var taken int
			if taken, out, then = s.spec.Answerer.Serve(in[at:n], out); then == Wait {
				room = taken
				break
			}
			at += taken
			s.sample.Total++
			if s.spec.StallEvery > 0 {
				traffic.StandStill(s.open, s.spec.StallEvery, s.spec.StallFor)
			}
			s.planted += s.plant.Spin()
		}
		s.out = out
		s.over = s.over || then == Over
		p.last = then == HangUp
		if len(out) > 0 && !s.send(i, out) {
			s.shut(i)
			return
		}
		if then == Wait {
			break
		}
	}
	if p.last {
		if !p.queued() {
			s.shut(i)
		}
		return
	}
	s.keep(i, in[at:n], room)
}

// keep keeps the unanswered requests, with room for at least this many bytes, and one more for reading.
//
//go:nosplit
func (s *Server) keep(i int, rest []byte, room int) {
	p := &s.peers[i]
	if p.have = len(rest); p.have == 0 {
		return
	}
	if room > s.spec.Longest || p.have > max(s.spec.Longest, readSize) {
		s.shut(i)
		return
	}
	if room = max(room, p.have+1); room > len(p.in) {
		p.grow(room, rest)
		return
	}
	copy(p.in, rest) // rest may be the end of p.in
}

// grow makes room.
func (p *peer) grow(room int, rest []byte) {
	p.in = make([]byte, max(room, 2*len(p.in), 4<<10))
	copy(p.in, rest)
}

// send sends answers on a connection, and keeps what its socket does not take.
//
//go:nosplit
func (s *Server) send(i int, out []byte) bool {
	p := &s.peers[i]
	for sent := 0; sent < len(out); {
		n, errno := p.Send(&out[sent], len(out)-sent, sock.DontWait|sock.NoSignal)
		switch errno {
		case 0:
			sent += n
		case sock.Interrupted:
		case sock.Again:
			p.out, p.sent = append(p.out[:0], out[sent:]...), 0
			s.watcher.OnlyOutput(i, p.Socket)
			return true
		default:
			return false
		}
	}
	return true
}
