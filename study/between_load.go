package study

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/network"
)

const (
	// pace is the time between two packets of a load: 1 kHz.
	pace = time.Millisecond
	// payload is the size of a packet's payload, in bytes.
	payload = 64
	// port is the port of the containers' sockets.
	port = 20001
	// late is how long an answer may take after the last packet of a load.
	late = 200 * time.Millisecond
	// answer is how long the answer to a single packet may take.
	answer = 10 * time.Second
)

// talk is a socket in a container of host 1, and a socket in a container of host 2 that sends everything back.
type talk struct {
	near, far  *net.UDPConn
	to         netip.AddrPort
	sequence   uint64
	background sync.WaitGroup
}

// talk opens the sockets.
func (s *standing) talk() (*talk, error) {
	return s.between(network.Pair{Source: network.Spot{Host: 0}, Sink: network.Spot{Host: 1}}, port, port)
}

// between opens the sockets of a pair at these ports.
func (s *standing) between(p network.Pair, near, far uint16) (*talk, error) {
	t := &talk{}
	var err error
	if t.near, _, err = s.open(p.Source, near); err != nil {
		return nil, err
	}
	if t.far, t.to, err = s.open(p.Sink, far); err != nil {
		_ = t.near.Close()
		return nil, err
	}
	t.background.Go(t.echo)
	return t, nil
}

// toHost opens a socket in a container, and one at the address of its host, from which others know the range of
// containers.
func (s *standing) toHost(from network.Spot, near uint16) (*talk, error) {
	t := &talk{}
	var err error
	if t.near, _, err = s.open(from, near); err != nil {
		return nil, err
	}
	v4, _ := network.Gateway(s.Site().Lab.Hosts[from.Host].Index)
	t.to = netip.AddrPortFrom(v4.Addr(), near)
	if t.far, err = s.listen(from.Host, "", t.to); err != nil {
		_ = t.near.Close()
		return nil, fmt.Errorf("%w (hint: a container alone needs a network whose host has an address there, such as "+
			"bridge)", err)
	}
	t.background.Go(t.echo)
	return t, nil
}

// listen opens a socket in a namespace of a host.
func (s *standing) listen(on int, namespace string, at netip.AddrPort) (c *net.UDPConn, err error) {
	ns, err := s.hosts[on].Namespace(namespace)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	err = netns.Do(int(ns.Fd()), func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	return c, err
}

// open opens a socket in a container, and returns the address at which others know it.
func (s *standing) open(at network.Spot, port uint16) (c *net.UDPConn, known netip.AddrPort, err error) {
	e := s.Site().Endpoints[at.Host][at.Container]
	c, err = s.listen(at.Host, e.Namespace, netip.AddrPortFrom(e.Bind(family), port))
	return c, netip.AddrPortFrom(e.Public(family), port), err
}

// echo sends back every packet until the socket is closed.
func (t *talk) echo() {
	b := make([]byte, payload)
	for {
		n, from, err := t.far.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = t.far.WriteToUDPAddrPort(b[:n], from) // a packet that cannot be sent is lost
		}
	}
}

func (t *talk) close() {
	_ = t.near.Close()
	_ = t.far.Close()
	t.background.Wait()
}

// send sends a packet and returns its number. A packet that cannot be sent is lost.
func (t *talk) send() uint64 {
	t.sequence++
	var b [payload]byte
	binary.BigEndian.PutUint64(b[:], t.sequence)
	_, _ = t.near.WriteToUDPAddrPort(b[:], t.to)
	return t.sequence
}

// receive waits for an answer.
func (t *talk) receive(until time.Time) (sequence uint64, at time.Time, err error) {
	b := make([]byte, payload)
	if err := t.near.SetReadDeadline(until); err != nil {
		return 0, at, err
	}
	for {
		n, _, err := t.near.ReadFromUDPAddrPort(b)
		at := time.Now()
		switch {
		case err != nil:
			return 0, at, err
		case n == payload:
			return binary.BigEndian.Uint64(b), at, nil
		}
	}
}

// once returns the round trip of one packet.
func (t *talk) once(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	sent := t.send()
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		got, at, err := t.receive(began.Add(answer))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, fmt.Errorf("no answer within %v", answer)
		}
		if err != nil {
			return 0, err
		}
		if got == sent {
			return at.Sub(began), nil
		}
	}
}

// answered sends packets until one is answered, so that all hosts know their neighbours. Then it waits for packets that
// are still under way.
func (t *talk) answered(ctx context.Context) error {
	began := time.Now()
	l := t.begin(began)
	err := l.until(ctx, began, patience)
	l.end()
	return err
}

// load sends a packet each [pace], and notes when its answer arrived.
type load struct {
	talk  *talk
	first uint64
	stop  chan struct{}
	work  sync.WaitGroup

	mu   sync.Mutex
	sent []time.Time // by number minus the first
	got  []reply
}

// reply is an answer.
type reply struct {
	at, sent time.Time
}

// begin begins a load. The time at which a packet is due does not depend on other packets; a late packet is sent at
// once.
func (t *talk) begin(start time.Time) *load {
	l := &load{talk: t, first: t.sequence + 1, stop: make(chan struct{})}
	sent := make(chan struct{})
	l.work.Go(func() {
		defer close(sent)
		for n := 0; ; n++ {
			due := start.Add(time.Duration(n) * pace)
			if d := time.Until(due); d > 0 {
				select {
				case <-l.stop:
					return
				case <-time.After(d):
				}
			} else {
				select {
				case <-l.stop:
					return
				default:
				}
			}
			l.mu.Lock()
			l.sent = append(l.sent, time.Now())
			l.mu.Unlock()
			t.send()
		}
	})
	l.work.Go(func() {
		last := time.Time{}
		for {
			select {
			case <-sent:
				if last.IsZero() {
					last = time.Now().Add(late)
				}
			default:
			}
			until := time.Now().Add(late / 4)
			if !last.IsZero() && (time.Now().After(last) || l.complete()) {
				return
			}
			n, at, err := t.receive(until)
			if err != nil {
				continue
			}
			l.mu.Lock()
			if n >= l.first && n-l.first < uint64(len(l.sent)) {
				l.got = append(l.got, reply{at: at, sent: l.sent[n-l.first]})
			}
			l.mu.Unlock()
		}
	})
	return l
}

// complete reports whether all packets were answered.
func (l *load) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.got) >= len(l.sent)
}

// silentError is the error that no packet passes.
type silentError struct{ patience time.Duration }

// Error says for how long.
func (e *silentError) Error() string { return fmt.Sprintf("no packet passes within %v", e.patience) }

// until waits for an answer to a packet that was sent after a time.
func (l *load) until(ctx context.Context, after time.Time, most time.Duration) error {
	for deadline := time.Now().Add(most); ; {
		l.mu.Lock()
		_, ok := answers{got: l.got}.after(after)
		l.mu.Unlock()
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return &silentError{most}
		}
		if err := wait(ctx, pace); err != nil {
			return err
		}
	}
}

// end ends the load and returns its answers.
func (l *load) end() answers {
	close(l.stop)
	l.work.Wait()
	return answers{sent: l.sent, got: l.got}
}

// answers are the results of a load.
type answers struct {
	sent []time.Time
	got  []reply // in the order of arrival
}

// within returns the results for the packets sent between two times.
func (a answers) within(from, to time.Time) answers {
	var some answers
	in := func(t time.Time) bool { return !t.Before(from) && t.Before(to) }
	for _, t := range a.sent {
		if in(t) {
			some.sent = append(some.sent, t)
		}
	}
	for _, r := range a.got {
		if in(r.sent) {
			some.got = append(some.got, r)
		}
	}
	return some
}

// after returns the arrival time of the first answer to a packet that was sent after a time.
func (a answers) after(t time.Time) (at time.Time, ok bool) {
	for _, r := range a.got {
		if r.sent.After(t) {
			return r.at, true
		}
	}
	return at, false
}

// lost is the number of packets that were not answered.
func (a answers) lost() int { return max(0, len(a.sent)-len(a.got)) }

// gap is the longest time between two answers, from the first packet to the last.
func (a answers) gap() time.Duration {
	if len(a.sent) == 0 {
		return 0
	}
	return a.longest(a.sent[0])
}

// pause returns the longest time between two sent packets. It shows how late the study itself was when other work used
// its CPU.
func (a answers) pause() time.Duration {
	longest := time.Duration(0)
	for i := 1; i < len(a.sent); i++ {
		longest = max(longest, a.sent[i].Sub(a.sent[i-1]))
	}
	return longest
}

// longest returns the longest time without an answer after a time.
func (a answers) longest(from time.Time) time.Duration {
	longest := time.Duration(0)
	times := a.times(from)
	for i := 1; i < len(times); i++ {
		longest = max(longest, times[i].Sub(times[i-1]))
	}
	return longest
}

// times returns the given time, the arrival times of answers after it and, if no answer came later, the time of the
// last packet.
func (a answers) times(from time.Time) []time.Time {
	times := []time.Time{from}
	for _, r := range a.got {
		if r.at.After(from) {
			times = append(times, r.at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	if n := len(a.sent); n > 0 && a.sent[n-1].After(times[len(times)-1]) {
		times = append(times, a.sent[n-1])
	}
	return times
}
