package byhand

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// A Sink waits for sources and serves them. A client that has not proved to be an allowed source costs the sink one
// connection. A source that is served has a process of its own.
type Sink struct {
	Version    string         // of this program
	Allow      []netip.Prefix // sources that it serves; nil: all
	Token      string         // that a source must know; "": none
	Sessions   int            // how many sources are served at once, 1 or more
	PerAddress int            // how many sources of one IPv4 address or IPv6 /64 are served at once, 1 or more
	Time       time.Duration  // how long a source is served if others wait
	Memory     int64          // bytes that all sessions together may hold, at least LeastMemory for each
	CPUs       []int          // the sessions' threads run on these in turn; nil: anywhere
	Once       bool           // end after the first source that was served
	Say        func(string)   // shows a message to the user

	strangers strangers
	queue     queue
	refusals  refusals
}

// Listen opens a sink's listening socket. If the address is unspecified, it serves both families.
func Listen(ctx context.Context, at string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, err)
	}
	var l net.Listener
	if number, notNumber := strconv.ParseUint(port, 10, 16); host == "" && notNumber == nil {
		l, err = everywhere(uint16(number))
	}
	if l == nil && (err == nil || errors.Is(err, syscall.EAFNOSUPPORT)) {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", at)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: address already in use (hint: another sink may be running there; --listen "+
			"names another port)", at)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w%s", at, cause(err), hint(err))
	}
	return l, nil
}

// everywhere listens on all addresses. net.Listen does so over IPv6 only if the loopback link is up, which may not be
// the case in a namespace (ipsock_posix.go, probe).
func everywhere(port uint16) (net.Listener, error) {
	s, err := sock.Stream(netip.AddrPortFrom(netip.IPv6Unspecified(), port), "")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(s.FD), "listener") // the net package closes it
	defer f.Close()
	if err := s.Listen(); err != nil {
		return nil, err
	}
	return net.FileListener(f)
}

// cause removes from a network error the parts that repeat the address and the call.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// Serve serves sources until the context ends. With Once, it serves until a source has measured a trial and left, and
// returns that source's error. So a connection that measures nothing does not end it.
func (s *Sink) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	s.queue.seats, s.queue.perAddress = make([]*guest, s.Sessions), s.PerAddress
	var (
		group  sync.WaitGroup
		once   sync.Once
		served error
	)
	defer group.Wait()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			group.Wait()
			return served
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			if !s.strangers.makeRoom() {
				s.turnedAway(fmt.Sprintf("a source cannot be served: accept: %v%s", cause(err), hint(err)))
			}
			time.Sleep(acceptPause) // it stands in the queue of the kernel until there is room
			continue
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // the connection ended before it was accepted (accept(2))
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(lineBuffer) // it fails if the connection has ended
		}
		far := unmapped(conn.RemoteAddr())
		if s.strangers.enter(conn, far.Addr()) {
			s.turnedAway(fmt.Sprintf("turned away the oldest of %d connections that have not sent a greeting",
				mostStrangers))
		}
		group.Go(func() {
			defer conn.Close()
			defer s.strangers.leave(conn)
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			trials, err := s.meet(ctx, line{conn, "the source at " + far.String(), helloSize})
			if trials > 0 && s.Once {
				once.Do(func() { served = err })
				cancel()
			}
		})
	}
}

// acceptPause is how long a sink that has no free descriptor waits before it tries again.
const acceptPause = 50 * time.Millisecond

// Reasons to refuse a source.
var (
	errVersion    = errors.New("use the same nettoll on both sides")
	errNotAllowed = errors.New("is not among the addresses that it serves")
	errToken      = errors.New("the token is not the one that the sink was started with")
	errQueueFull  = errors.New("wait already")
	errStart      = errors.New("its process cannot be started")
)

// meet handles a new connection, and returns how many trials it has measured.
func (s *Sink) meet(ctx context.Context, l line) (trials int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
			s.Say(fault(l.peer, err.Error()))
		}
	}()
	from := l.remote().Addr()
	var g *guest
	err = s.greet(l, from)
	s.strangers.leave(l.conn)
	if err == nil {
		if g, err = s.queue.enter(from); err != nil {
			s.refuse(l, err)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			s.turnedAway(fmt.Sprintf("turned away: %v", err))
		}
		return 0, err
	}
	defer s.queue.leave(g)
	seat, err := s.wait(ctx, l, g)
	if err != nil {
		if ctx.Err() == nil {
			s.turnedAway(fmt.Sprintf("turned away: %v", err))
		}
		return 0, err
	}
	trials, err = s.session(ctx, l, seat)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return trials, err
}

// greet reads the hello of a connection, and returns why it is not served.
func (s *Sink) greet(l line, from netip.Addr) error {
	var h hello
	if err := l.hear(&h, answerLimit); err != nil {
		return err
	}
	if h.Nettoll == 0 {
		return fmt.Errorf("%s does not speak nettoll's protocol", l.peer)
	}
	err := s.judge(l, h, from)
	if err != nil {
		s.refuse(l, err)
		return fmt.Errorf("%s: %w", strings.TrimPrefix(l.peer, "the "), err)
	}
	return nil
}

// judge returns why a source that has said hello is refused.
func (s *Sink) judge(l line, h hello, from netip.Addr) error {
	allowed := len(s.Allow) == 0
	for _, p := range s.Allow {
		allowed = allowed || p.Contains(from.WithZone(""))
	}
	switch {
	case h.Nettoll != Protocol:
		return fmt.Errorf("it speaks version %d of nettoll's protocol, and this source, nettoll %s, version %d: %w", Protocol,
			h.Version, h.Nettoll, errVersion)
	case !allowed:
		return fmt.Errorf("%s %w (its --allow lists those)", from, errNotAllowed)
	case s.Token == "":
		return nil
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // it never fails
	if err := l.say(hello{Nettoll: Protocol, Version: s.Version, Nonce: nonce}); err != nil {
		return err
	}
	var answer hello
	if err := l.hear(&answer, answerLimit); err != nil {
		return err
	}
	if !hmac.Equal(answer.Proof, prove(s.Token, nonce)) { // compares in constant time
		return errToken
	}
	return nil
}

// nonceSize is the number of random bytes for each proof of a token: the same as the size of the proof.
const nonceSize = 32

// refuse sends a source the reason why it is not served. The source may be gone.
func (s *Sink) refuse(l line, why error) {
	_ = l.say(hello{Nettoll: Protocol, Version: s.Version, Refused: why.Error()})
}

// wait waits until a source has a seat. Meanwhile it reports to the source how many are before it, and checks that the
// source is still there.
func (s *Sink) wait(ctx context.Context, l line, g *guest) (seat int, err error) {
	for pause := soon; ; pause = tellEvery {
		select {
		case <-g.moved:
		case <-time.After(pause):
			before, _ := s.queue.place(g)
			if before == 0 {
				continue // it has a seat now, and moved reports that
			}
			if err := l.say(hello{Nettoll: Protocol, Version: s.Version, Place: before}); err != nil {
				return 0, err
			}
			if err := l.hear(&hello{}, answerLimit); err != nil {
				return 0, fmt.Errorf("%w while it waited for its turn", err)
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if before, seat := s.queue.place(g); before == 0 {
			return seat, nil
		}
	}
}

// turnedAway reports to the user a client that was not served; if there are very many, it reports their number.
func (s *Sink) turnedAway(what string) {
	if text := s.refusals.note(what, time.Now()); text != "" {
		s.Say(text)
	}
}

// refusals limits how many lines clients can add to the user's log: mostRefusals refusals are reported at once, then
// one a second.
type refusals struct {
	mu     sync.Mutex
	told   int
	last   time.Time
	untold int
}

const mostRefusals = 20

// note returns the message about a refusal; "" for none.
func (r *refusals) note(what string, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed := int(now.Sub(r.last) / time.Second); passed > 0 {
		r.told, r.last = max(0, r.told-passed), now
	}
	if r.told >= mostRefusals {
		r.untold++
		return ""
	}
	r.told++
	if r.untold > 0 {
		what += fmt.Sprintf(" (and %d more were turned away before)", r.untold)
		r.untold = 0
	}
	return what
}
