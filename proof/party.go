package proof

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/packet"
)

// A Party sends and hears the tries of a matrix for a container whose host cannot be entered. [Plain] does so in its
// own process; control has its workers do so.
type Party interface {
	// Open opens what the container hears by. It hears until Close.
	Open(ctx context.Context, l Listening) (Opened, error)
	// Send sends tries and does not wait for what comes of them.
	Send(ctx context.Context, list []Shot) (Sent, error)
	// Heard returns what has come since the last call.
	Heard(ctx context.Context) (Heard, error)
	// Close closes everything. It is idempotent.
	Close(ctx context.Context) error
}

// Listening is what a party hears, and how it sends.
type Listening struct {
	// IPv4 and IPv6 are the addresses of the container, invalid if it has none of a family.
	IPv4 netip.Addr `json:"ipv4"`
	IPv6 netip.Addr `json:"ipv6"`
	// Source is the port from which datagrams are sent. Echo requests have it as their identifier.
	Source uint16 `json:"source"`
	// Ports are those of UDP and TCP at which tries are heard.
	Ports []uint16 `json:"ports"`
	// Mark is in every try, and its number behind it, in four bytes.
	Mark []byte `json:"mark"`
	// Wait is how long a connection may take until it stands, unless its try says otherwise.
	Wait time.Duration `json:"wait"`
}

func (l Listening) own(v6 bool) netip.Addr {
	if v6 {
		return l.IPv6
	}
	return l.IPv4
}

// Opened says what a party can do.
type Opened struct {
	Taken []Taken `json:"taken,omitempty"`
	// Asks says whether it may send echo requests, of IPv4 and of IPv6.
	Asks [2]bool `json:"asks"`
}

// Taken is a port that somebody else has, so that nothing is heard there.
type Taken struct {
	IPv6   bool   `json:"ipv6,omitempty"`
	Stream bool   `json:"stream,omitempty"`
	Port   uint16 `json:"port"`
}

// A Shot is a try: a datagram or an echo request, or a connection that begins at a port which the kernel chooses.
type Shot struct {
	Number int            `json:"n"`
	Stream bool           `json:"stream,omitempty"`
	To     netip.AddrPort `json:"to"` // without a port: an echo request
	// Wait is how long a connection may take until it stands; 0: as [Listening] says. Who waits for more than a second
	// has the kernel send anew what others may refuse, and judge slowly.
	Wait time.Duration `json:"wait,omitempty"`
}

// Sent is what came of shots at once.
type Sent struct {
	// Ports are those at which connections began, by the number of the try.
	Ports map[int]uint16 `json:"ports,omitempty"`
	// Failed says which tries were not sent, and why.
	Failed map[int]string `json:"failed,omitempty"`
}

// Heard is what a party has heard.
type Heard struct {
	// Numbers are those of tries that have arrived, and Answered those of echo requests that were answered.
	Numbers  []int `json:"numbers,omitempty"`
	Answered []int `json:"answered,omitempty"`
	// Requests are connections that somebody has asked for, and not confirmed.
	Requests []procfs.Request `json:"requests,omitempty"`
	// Echoes is how many echo requests the kernel has counted since Open, by family.
	Echoes [2]int64 `json:"echoes"`
}

// Plain is a party that does what any program may: it takes no rights.
type Plain struct {
	// In calls a function in the network namespace of the container.
	In func(f func() error) error

	mu sync.Mutex // of everything below
	Listening
	open      bool
	datagrams map[netip.AddrPort]sock.Socket // by their own addresses
	listeners []sock.Socket
	accepted  []sock.Socket
	asking    [2]sock.Socket // of echo requests
	asks      [2]bool
	begun     []connection
	counters  [2]*sock.Echoes
	before    [2]int64
	heard     Heard
	buf       []byte
	stop      chan struct{}
	done      sync.WaitGroup
}

// A connection is one that has begun.
type connection struct {
	sock.Socket
	number int // of its try, which another one may have as well
	until  time.Time
	told   bool // its number was sent
}

var _ Party = (*Plain)(nil)

// rest is how long a party rests until it looks for what has come: its sockets have room for what others send meanwhile
// (see [together]), and a hundred of them may share a machine.
const rest = 5 * time.Millisecond

// backlog is how many connections may wait for a listener. The kernel allows so many by default (SOMAXCONN,
// include/linux/socket.h).
const backlog = 4096

// Open implements [Party].
func (p *Plain) Open(_ context.Context, l Listening) (Opened, error) {
	p.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Listening, p.open, p.heard, p.buf = l, true, Heard{}, make([]byte, 1<<16)
	p.datagrams, p.begun, p.stop = map[netip.AddrPort]sock.Socket{}, nil, make(chan struct{})
	p.asks = [2]bool{}
	var o Opened
	err := p.In(func() error {
		for n, v6 := range []bool{false, true} {
			if !l.own(v6).IsValid() {
				continue
			}
			if err := p.listen(v6, &o); err != nil {
				return err
			}
			s, err := sock.Plain(int(packet.ICMPOf(l.own(v6))), netip.AddrPortFrom(l.own(v6), l.Source), "")
			if p.asking[n], p.asks[n] = s, err == nil; err != nil && !errors.Is(err, os.ErrPermission) {
				return err
			}
			if p.counters[n], err = sock.NewEchoes(v6); err != nil {
				return err
			}
			if p.before[n], err = p.counters[n].Count(); err != nil {
				return err
			}
		}
		return nil
	})
	o.Asks = p.asks
	if err != nil {
		p.release()
		return o, err
	}
	p.done.Go(p.attend)
	return o, nil
}

// listen opens the sockets of a family.
func (p *Plain) listen(v6 bool, o *Opened) error {
	for _, port := range p.Ports {
		at := netip.AddrPortFrom(p.own(v6), port)
		if s, err := sock.Plain(packet.UDP, at, ""); err == nil {
			p.datagrams[at] = s
		} else if errors.Is(err, syscall.EADDRINUSE) {
			o.Taken = append(o.Taken, Taken{IPv6: v6, Port: port})
		} else {
			return err
		}
		s, err := sock.Stream(at, "")
		if err == nil {
			p.listeners = append(p.listeners, s) // it is closed in any case
			err = s.ListenFor(backlog)
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			o.Taken = append(o.Taken, Taken{IPv6: v6, Stream: true, Port: port})
		} else if err != nil {
			return err
		}
	}
	at := netip.AddrPortFrom(p.own(v6), p.Source)
	if _, is := p.datagrams[at]; is {
		return nil // both send and hear there
	}
	s, err := sock.Plain(packet.UDP, at, "")
	if err == nil {
		p.datagrams[at] = s
	}
	return err
}

// attend hears until Close.
func (p *Plain) attend() {
	often := time.NewTicker(rest)
	defer often.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-often.C:
			p.mu.Lock()
			p.hear()
			p.mu.Unlock()
		}
	}
}

// hear takes what has come.
func (p *Plain) hear() {
	for _, s := range p.datagrams {
		p.take(s, &p.heard.Numbers)
	}
	for n, asks := range p.asks {
		if asks {
			p.take(p.asking[n], &p.heard.Answered)
		}
	}
	for _, l := range p.listeners {
		for {
			s, errno := l.AcceptNext()
			if errno == sock.Interrupted || errno == sock.Aborted {
				continue
			}
			if errno != 0 {
				break
			}
			p.accepted = append(p.accepted, s)
		}
	}
	var waiting []sock.Socket
	for _, s := range p.accepted {
		if errno := p.take(s, &p.heard.Numbers); errno == sock.Again {
			waiting = append(waiting, s)
		} else {
			s.Abort()
		}
	}
	p.accepted = waiting
	for i := range p.begun {
		p.tell(&p.begun[i])
	}
	p.begun = slices.DeleteFunc(p.begun, func(c connection) bool { return c.FD < 0 })
}

// take notes the numbers of what waits in a socket, until there is none, or the stream has ended.
func (p *Plain) take(s sock.Socket, to *[]int) sock.Errno {
	for {
		size, errno := s.Recv(&p.buf[0], len(p.buf), sock.DontWait)
		switch {
		case errno == sock.Interrupted:
		case errno != 0:
			return errno
		default:
			n, ok := marked(p.buf[:size], p.Mark)
			if ok {
				*to = append(*to, n)
			}
			if size == 0 {
				return 0
			}
		}
	}
}

// tell sends its number by a connection that stands, once, and ends it when its time is over.
func (p *Plain) tell(c *connection) {
	if !c.told {
		text := key(p.Mark, c.number)
		_, errno := c.Send(&text[0], len(text), sock.DontWait|sock.NoSignal)
		if c.told = errno == 0; c.told {
			c.until = time.Now().Add(tryWait)
		}
		if errno != 0 && errno != sock.Again && errno != sock.Interrupted { // it was refused
			c.until = time.Time{}
		}
	}
	if time.Now().After(c.until) {
		c.Abort()
		c.FD = -1
	}
}

// errClosed says that a party does not listen.
var errClosed = errors.New("it does not listen")

// Send implements [Party].
func (p *Plain) Send(_ context.Context, list []Shot) (Sent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return Sent{}, errClosed
	}
	sent := Sent{Ports: map[int]uint16{}, Failed: map[int]string{}}
	err := p.In(func() error {
		for _, t := range list {
			var err error
			switch v6 := t.To.Addr().Is6(); {
			case t.Stream:
				sent.Ports[t.Number], err = p.connect(t)
			case t.To.Port() == 0:
				n := map[bool]int{true: 1}[v6]
				if err = errUnsent; p.asks[n] {
					err = patiently(p.asking[n], t.To, echoRequestOf(p.own(v6), t.To.Addr(), key(p.Mark, t.Number)))
				}
			default:
				from := p.datagrams[netip.AddrPortFrom(p.own(v6), p.Source)]
				err = patiently(from, t.To, key(p.Mark, t.Number))
			}
			if err != nil {
				sent.Failed[t.Number] = err.Error()
			}
		}
		return nil
	})
	return sent, err
}

// connect begins a connection, and returns the port from which that goes.
func (p *Plain) connect(t Shot) (port uint16, err error) {
	s, err := sock.Stream(netip.AddrPortFrom(p.own(t.To.Addr().Is6()), 0), "")
	if err != nil {
		return 0, err
	}
	at, err := s.Local()
	if err != nil {
		s.Close()
		return 0, err
	}
	to := sock.NewAddress(t.To)
	switch err := s.BeginConnect(&to); {
	case err == nil:
		p.begun = append(p.begun, connection{Socket: s, number: t.Number, until: time.Now().Add(cmp.Or(t.Wait, p.Wait))})
		return at.Port(), nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENOBUFS),
		errors.Is(err, syscall.ENOMEM):
		s.Close()
		return 0, err
	}
	s.Close() // its own kernel did not let it out, or has no way for it
	return at.Port(), nil
}

// patiently sends a message, as soon as there is room for it.
func patiently(s sock.Socket, to netip.AddrPort, message []byte) error {
	for end := time.Now().Add(quiet); ; time.Sleep(glance) {
		_, err := s.SendPacket(to, message)
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return err
		}
	}
}

// Heard implements [Party].
func (p *Plain) Heard(context.Context) (Heard, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return Heard{}, errClosed
	}
	p.hear()
	h := p.heard
	p.heard = Heard{}
	err := p.In(func() error {
		asked, err := procfs.Requests()
		for _, r := range asked {
			for _, port := range p.Ports {
				if r.Port == port {
					h.Requests = append(h.Requests, r)
				}
			}
		}
		return err
	})
	for n, c := range p.counters {
		if c == nil || err != nil {
			continue
		}
		var now int64
		now, err = c.Count()
		h.Echoes[n] = now - p.before[n]
	}
	return h, err
}

// Close implements [Party].
func (p *Plain) Close(context.Context) error {
	p.close()
	return nil
}

func (p *Plain) close() {
	p.mu.Lock()
	was := p.open
	if p.open = false; was {
		close(p.stop)
	}
	p.mu.Unlock()
	if p.done.Wait(); was {
		p.release()
	}
}

// release closes all sockets.
func (p *Plain) release() {
	p.open = false
	for _, s := range p.datagrams {
		s.Close()
	}
	for _, s := range p.listeners {
		s.Close()
	}
	for _, s := range p.accepted {
		s.Abort()
	}
	for _, c := range p.begun {
		c.Abort()
	}
	for n, c := range p.counters {
		if p.asks[n] {
			p.asking[n].Close()
		}
		if c != nil {
			c.Close()
		}
	}
	p.datagrams, p.begun, p.listeners, p.accepted = nil, nil, nil, nil
	p.counters, p.asks = [2]*sock.Echoes{}, [2]bool{}
}
