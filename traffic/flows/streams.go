package flows

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
)

const (
	// mendLimit is how long all connections may take to be established if a trial has lost some.
	mendLimit = 500 * time.Millisecond

	// spread is the largest number of ports to which connections lead. The queue of each holds net.core.somaxconn
	// connections, 4096, until they are accepted. Each port can have as many connections as there are source ports,
	// about 28,000.
	spread = 8

	// patience is how long a blocking call may block.
	patience = 8 * time.Millisecond
)

// A Place holds the addresses of an end's sockets and of their peers, like workload.Spec.
type Place struct {
	Local, Remote           netip.AddrPort
	LocalPorts, RemotePorts int // numbers of ports, starting with those
	Options                 sock.Options
}

// Datagrams opens this many sockets, each connected from its own port to another port. Call it inside the network
// namespace.
func Datagrams(p Place, count int) (_ []sock.Socket, err error) {
	if most := min(p.LocalPorts, p.RemotePorts); count > most {
		return nil, fmt.Errorf("%d flows, but each end has only %d ports", count, most)
	}
	var list []sock.Socket
	defer func() {
		if err != nil {
			for _, s := range list {
				s.Close()
			}
		}
	}()
	for i := range count {
		s, err := sock.UDP(next(p.Local, i), next(p.Remote, i))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		if err := errors.Join(s.Set(p.Options), s.SetTimeout(patience)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// next returns an address with its port increased by i.
func next(a netip.AddrPort, i int) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), a.Port()+uint16(i))
}

// Streams holds the connections of an end, and what is needed to replace connections that a trial has lost. Flow i of
// one end is not flow i of the other.
type Streams struct {
	place     Place
	home      *os.File // the container's namespace, for new sockets
	sockets   []sock.Socket
	listeners []sock.Socket // of the end that accepts
	setup     int64         // ns of the first set-up
	resent    []int64       // retransmitted segments of each connection at the last count
}

func newStreams(p Place, count int) (*Streams, error) {
	home, err := netns.Current()
	if err != nil {
		return nil, err
	}
	s := &Streams{place: p, home: home, sockets: make([]sock.Socket, count), resent: make([]int64, count)}
	for i := range s.sockets {
		s.sockets[i].FD = -1
	}
	return s, nil
}

// Call makes this many connections at the same time, from ports that the kernel chooses to the remote ports in turn.
// Call it inside the network namespace.
func Call(p Place, count int) (*Streams, error) {
	s, err := newStreams(p, count)
	if err != nil {
		return nil, err
	}
	all := make([]int, count)
	for i := range all {
		all[i] = i
	}
	start := clock.Now()
	if err := s.connect(all, traffic.ConnectLimit); err != nil {
		s.Close()
		return nil, err
	}
	s.setup = clock.Now() - start
	return s, nil
}

// Listen listens for this many connections at the local ports. Call it inside the network namespace. [End.Ready]
// accepts them.
func Listen(p Place, count int) (_ *Streams, err error) {
	s, err := newStreams(p, count)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	ports := max(1, min(p.LocalPorts, spread))
	for i := range ports {
		l, err := sock.Stream(next(p.Local, i), "")
		if err != nil {
			return nil, err
		}
		s.listeners = append(s.listeners, l)
		// All connections may arrive before the first is accepted. Abandoned ones are in the queue, too.
		if err := errors.Join(l.Set(p.Options), l.ListenFor(count/ports+128)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close closes everything.
func (s *Streams) Close() {
	for _, l := range s.listeners {
		l.Close()
	}
	for _, c := range s.sockets {
		c.Close()
	}
	_ = s.home.Close()
}

// connect makes connections, all at the same time. The calling thread must be in the network namespace.
func (s *Streams) connect(which []int, within time.Duration) error {
	made := 0
	fail := func(err error) error {
		for _, i := range which {
			s.sockets[i].Abort()
			s.sockets[i].FD = -1
		}
		return fmt.Errorf("only %d of %d connections from %s to %s were established: "+
			"%w%s", made, len(which), s.place.Local.Addr(),
			s.place.Remote, err, hint(err))
	}
	maker, _, err := sock.NewMaker(netip.AddrPortFrom(s.place.Local.Addr(), 0), s.place.Options, patience)
	if err != nil {
		return err
	}
	watcher, err := sock.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	to := sock.NewAddress(s.place.Remote)
	for _, i := range which {
		c, errno := maker.Make(0)
		if errno != 0 {
			return fail(fmt.Errorf("open socket: %w", errno))
		}
		s.sockets[i] = c
		to.SetPort(s.place.Remote.Port() + uint16(i%max(1, min(s.place.RemotePorts, spread))))
		if err := c.BeginConnect(&to); err != nil {
			return fail(err)
		}
		if err := watcher.Add(i, c, true); err != nil {
			return fail(err)
		}
	}
	for deadline := time.Now().Add(within); made < len(which); {
		n := watcher.Wait(int64(patience))
		for k := range n {
			i, _, _ := watcher.Event(k)
			if err := s.sockets[i].Pending(); err != nil {
				return fail(err)
			}
			watcher.Forget(s.sockets[i])
			made++
		}
		if n == 0 && time.Now().After(deadline) {
			return fail(fmt.Errorf("%w within %v", os.ErrDeadlineExceeded, within))
		}
	}
	return nil
}

// counted returns the number of segments retransmitted since the last call, on existing connections.
func (s *Streams) counted() (resent int64) {
	for i, c := range s.sockets {
		if c.FD < 0 {
			continue
		}
		if info, err := c.TCPInfo(); err == nil {
			resent += info.Resent - s.resent[i]
			s.resent[i] = info.Resent
		}
	}
	return resent
}

// hint returns advice about an error of making many connections.
func hint(err error) string {
	switch {
	case errors.Is(err, sock.AddressUnavailable):
		return " (no free local port; hint: widen net.ipv4.ip_local_port_range)"
	case sock.OutOfDescriptors(err):
		return " (hint: raise the limit of open files, ulimit -n, or ask for fewer connections or pairs)"
	}
	return ""
}

// accept accepts connections for flows without one. It skips connections that are already over, from attempts that the
// caller has abandoned.
func (e *End) accept(which []int, within time.Duration) error {
	const pause = time.Millisecond
	deadline := time.Now().Add(within)
	for at := 0; at < len(which); {
		came := false
		for _, l := range e.Streams.listeners {
			if at == len(which) {
				break
			}
			c, errno := l.AcceptNext()
			if errno != 0 {
				if sock.OutOfDescriptors(errno) {
					return fmt.Errorf("accept: only %d of %d connections arrived: %w%s", at, len(which), errno, hint(errno))
				}
				continue
			}
			came = true
			if c.Pending() != nil || ended(c) {
				c.Close()
				continue
			}
			if err := e.join(which[at], c); err != nil {
				return err
			}
			at++
		}
		switch {
		case came:
		case time.Now().After(deadline):
			return fmt.Errorf("accept: only %d of %d connections arrived: %w", at, len(which), os.ErrDeadlineExceeded)
		default:
			time.Sleep(pause)
		}
	}
	return nil
}

// ended reports whether a connection is over.
func ended(c sock.Socket) bool {
	var b [1]byte
	n, errno := c.Peek(&b[0], 1)
	return errno == 0 && n == 0 || errno != 0 && errno != sock.Again
}

// join gives a flow its connection.
func (e *End) join(i int, c sock.Socket) error {
	e.Streams.sockets[i], e.Streams.resent[i] = c, 0
	e.flows[i] = flow{lane: e.flows[i].lane}
	return e.watcher.Add(i, c, false)
}

// Ready implements workload.Readier. It accepts the connections from the other end.
func (e *End) Ready(within time.Duration) error {
	if e.Streams == nil || len(e.Streams.listeners) == 0 {
		return nil
	}
	return e.accept(e.dead(), within)
}

// dead returns the flows without a connection.
func (e *End) dead() []int {
	var list []int
	for i := range e.flows {
		if e.flows[i].dead {
			list = append(list, i)
		}
	}
	return list
}

// mend discards data of an earlier trial on the streams, and replaces lost connections.
func (e *End) mend() {
	e.sweep.Lock()
	defer e.sweep.Unlock()
	if e.gone {
		return
	}
	e.takeLeft()
	if e.lost() {
		e.dropAll()
	}
	e.renew()
}

// settle handles, when a trial has opened, connections that the other end has abandoned after the previous trial, and
// their replacements. If a queue holds much data, they arrive after it, too late for Prepare, and would break this
// trial. The other end connects before its trial opens, and packets on one path keep their order, so by now they have
// arrived.
func (e *End) settle() {
	if e.sample.Failure != "" {
		return
	}
	e.sweep.Lock()
	defer e.sweep.Unlock()
	if e.gone {
		return
	}
	e.takeLeft()
	if e.broken > 0 {
		e.dropAll()
		e.renew()
		e.broken, e.refused = 0, 0
	}
	e.replace()
}

// takeLeft discards the data that has arrived on the streams.
func (e *End) takeLeft() {
	deadline := clock.Now() + limit
	for n := 1; n > 0 && clock.Now() < deadline; { // a connection that is over is readable
		n = e.watcher.Wait(0)
		for k := range n {
			i, _, _ := e.watcher.Event(k)
			e.takeStream(i)
		}
	}
}

// renew makes the missing connections.
func (e *End) renew() {
	which := e.dead()
	if len(which) == 0 {
		return
	}
	var err error
	if len(e.Streams.listeners) > 0 {
		err = e.accept(which, mendLimit)
	} else if err = netns.Here(int(e.Streams.home.Fd()), func() error {
		return e.Streams.connect(which, mendLimit)
	}); err == nil {
		for _, i := range which {
			if err = e.join(i, e.Streams.sockets[i]); err != nil {
				break
			}
		}
	}
	if err != nil {
		e.sample.Failure = fmt.Sprintf("missing connections: %v", err)
	}
}

// replace accepts new connections although none is missing, one for each flow: the other end has abandoned and replaced
// all of them, but its message was lost. Fewer connections are not from that end.
func (e *End) replace() {
	var came []sock.Socket
	for _, l := range e.Streams.listeners {
		for c, errno := l.AcceptNext(); errno == 0; c, errno = l.AcceptNext() {
			if c.Pending() != nil || ended(c) {
				c.Close()
				continue
			}
			came = append(came, c)
		}
	}
	if len(came) < len(e.flows) {
		for _, c := range came {
			c.Close()
		}
		return
	}
	e.dropAll()
	for i, c := range came {
		if i >= len(e.flows) {
			c.Close()
		} else if e.join(i, c) != nil {
			e.drop(i) // the next trial replaces all of them
		}
	}
}

// lost reports whether the connections cannot be used for another trial: one of them broke, holds a partly sent
// message, or may hold messages under way.
func (e *End) lost() bool {
	return e.undrained || slices.ContainsFunc(e.flows, func(f flow) bool { return f.broken || !f.dead && f.size > 0 })
}

// dropAll ends all connections. An end abandons all or none: neither end knows which connection of the other is which,
// so a replacement would not show which one it replaces.
func (e *End) dropAll() {
	for i := range e.flows {
		if !e.flows[i].dead {
			e.drop(i)
		}
	}
}

// drop ends a connection at once, for both sides.
func (e *End) drop(i int) {
	e.Streams.sockets[i].Abort()
	e.Streams.sockets[i].FD = -1
	f := &e.flows[i]
	f.broken, f.dead = false, true
}

// cut ends, after a trial, connections that may still have data of it to send, because that must not reach the next
// trial. An end that only hears ends them in [End.mend], because the other end may still be in the trial.
func (e *End) cut() {
	e.sweep.Lock()
	defer e.sweep.Unlock()
	if e.gone {
		return
	}
	if e.Streams == nil {
		for i := range e.flows { // a datagram that waits for room is discarded
			f := &e.flows[i]
			if f.blocked {
				e.watcher.Output(i, e.sockets[i], false)
			}
			f.size, f.blocked = 0, false
		}
		return
	}
	if len(e.Out) > 0 && e.lost() {
		e.dropAll()
	}
}
