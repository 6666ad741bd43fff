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

// A Sink waits for sources and serves them. Who has not shown to be a source that may be served costs it a connection;
// who is served has a process of its own.
type Sink struct {
	Version    string         // of this program
	Allow      []netip.Prefix // whom it serves; nil: everybody
	Token      string         // that a source must know; "": none
	Sessions   int            // how many sources are served at once, 1 or more
	PerAddress int            // how many sources of one address are served at once, 1 or more
	Time       time.Duration  // how long a source is served where others wait
	Memory     int64          // bytes that all sessions may hold together, LeastMemory for each or more
	CPUs       []int          // the sessions' threads run on these in turn; nil: anywhere
	Once       bool           // end after the first source that was served
	Say        func(string)   // tells the user what happens

	strangers strangers
	queue     queue
	refusals  refusals
}

// Listen opens a sink's listening socket. Where its address is none in particular it serves both families.
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

// everywhere listens on all addresses. (net.Listen does so over IPv6 only where the loopback link is up, which nobody
// may have seen to in a namespace: ipsock_posix.go, probe.)
func everywhere(port uint16) (net.Listener, error) {
	s, err := sock.Stream(netip.AddrPortFrom(netip.IPv6Unspecified(), port), "")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(s.FD), "listener") // which closes it
	defer f.Close()
	if err := s.Listen(); err != nil {
		return nil, err
	}
	return net.FileListener(f)
}

// cause leaves out of a network error what it repeats of the address and the call.
func cause(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// Serve serves sources until the context ends, or with Once until one has been served, and returns why that one failed.
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
		case err != nil: // a connection that ended before it was accepted (accept(2))
			continue
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
			took, err := s.meet(ctx, line{conn, "the source at " + far.String(), helloSize})
			if took && s.Once {
				once.Do(func() { served = err })
				cancel()
			}
		})
	}
}

// acceptPause is how long a sink without descriptors waits for one.
const acceptPause = 50 * time.Millisecond

// Why a source is refused.
var (
	errVersion    = errors.New("use the same nettoll on both sides")
	errNotAllowed = errors.New("is not among the addresses that it serves")
	errToken      = errors.New("the token is not the one that the sink was started with")
	errQueueFull  = errors.New("wait already")
	errStart      = errors.New("its process cannot be started")
)

// meet talks to whoever has connected. It returns whether that was a source, which has been served.
func (s *Sink) meet(ctx context.Context, l line) (took bool, err error) {
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
		return false, err
	}
	defer s.queue.leave(g)
	seat, err := s.wait(ctx, l, g)
	if err != nil {
		if ctx.Err() == nil {
			s.turnedAway(fmt.Sprintf("turned away: %v", err))
		}
		return false, err
	}
	err = s.session(ctx, l, seat)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return true, err
}

// greet hears who has connected, and returns why it is not served.
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

// judge says why a source that has said hello is refused.
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
	if !hmac.Equal(answer.Proof, prove(s.Token, nonce)) { // in constant time
		return errToken
	}
	return nil
}

// nonceSize is how many bytes are drawn for each proof of a token: as many as the proof has.
const nonceSize = 32

// refuse tells a source why it is not served. It may be gone.
func (s *Sink) refuse(l line, why error) {
	_ = l.say(hello{Nettoll: Protocol, Version: s.Version, Refused: why.Error()})
}

// wait waits until a source has a seat, tells it meanwhile how many are before it, and hears that it is still there.
func (s *Sink) wait(ctx context.Context, l line, g *guest) (seat int, err error) {
	for pause := soon; ; pause = tellEvery {
		select {
		case <-g.moved:
		case <-time.After(pause):
			before, _ := s.queue.place(g)
			if before == 0 {
				continue // it is told
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

// turnedAway tells the user about somebody who was not served, unless very many were: then how many.
func (s *Sink) turnedAway(what string) {
	if text := s.refusals.note(what, time.Now()); text != "" {
		s.Say(text)
	}
}

// refusals keep what strangers do from filling the user's log: mostRefusals of them are told at once, then one a
// second.
type refusals struct {
	mu     sync.Mutex
	told   int
	last   time.Time
	untold int
}

const mostRefusals = 20

// note returns what is to be said about a refusal, "" for nothing.
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
