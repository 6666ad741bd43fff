package proof

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/busy"
)

const (
	ipv4Headers = 20 + 8 // bytes of IPv4 and UDP (RFC 791, RFC 768)
	ipv6Headers = 40 + 8 // bytes of IPv6 and UDP (RFC 8200)

	tries   = 3
	tryWait = 500 * time.Millisecond
	// lossyWait is what lets a kernel ask for a neighbour more than three times meanwhile.
	lossyWait = time.Second
	// roomWait is how long room in a table of neighbours is waited for, which all network namespaces share: the kernel
	// takes seconds to remove the namespaces of labs that are gone, and their neighbours with them.
	roomWait = 5 * time.Second
	// glimpse is how long a single receive waits.
	glimpse = 20 * time.Millisecond
	// longest is how many times as long as it was meant a wait may take by the clock.
	longest = 3
)

// FullPayload is the UDP payload that makes a packet exactly as large as the MTU.
func FullPayload(mtu int, ipv6 bool) int {
	if ipv6 {
		return mtu - ipv6Headers
	}
	return mtu - ipv4Headers
}

// Mirror answers every datagram that reaches its address with the same bytes, until it is closed.
type Mirror struct {
	sock sock.Socket
	done chan struct{}
	stop chan struct{}
}

// NewMirror opens one. Call it inside the container's network namespace.
func NewMirror(local, remote netip.AddrPort) (*Mirror, error) { return newMirror(local, remote, false) }

// newMirror opens one whose answers may be fragmented.
func newMirror(local, remote netip.AddrPort, fragments bool) (*Mirror, error) {
	s, err := open(local, remote, fragments)
	if err != nil {
		return nil, err
	}
	m := &Mirror{sock: s, done: make(chan struct{}), stop: make(chan struct{})}
	go m.serve()
	return m, nil
}

func (m *Mirror) serve() {
	defer close(m.done)
	buf := make([]byte, 1<<16)
	for {
		n, errno := m.sock.RecvParked(buf)
		select {
		case <-m.stop:
			return
		default:
		}
		if errno == 0 {
			m.sock.Send(&buf[0], n, 0) // what cannot be answered is missed by the other side
		}
	}
}

// Close ends it.
func (m *Mirror) Close() {
	close(m.stop)
	m.sock.Shutdown()
	<-m.done
	m.sock.Close()
}

// Patience says how much longer than usual an answer may take.
type Patience struct {
	// Trip is how long packets are on their way, to there and back.
	Trip time.Duration `json:"trip,omitempty"`
	// Lossy says that packets may be lost: then those that ask for neighbours, too, which the kernel sends once a second.
	Lossy bool `json:"lossy,omitempty"`
}

// wait is how long one of the [tries] waits.
func (p Patience) wait() time.Duration {
	if p.Lossy {
		return tryWait + p.Trip + lossyWait
	}
	return tryWait + p.Trip
}

// Passage sends datagrams of the given payload to a [Mirror] and compares what comes back, byte by byte. The
// don't-fragment bit is set: a packet that is larger than any link on the path does not pass. When one has passed it
// sends more small ones, and says how many of those were answered, each once: for who counts packets on the way. All
// hold the mark. Call Passage inside the container's network namespace; the returned function may run anywhere.
func Passage(local, remote netip.AddrPort, payload, more int, mark []byte, patience Patience) (
	func() (answered int, err error), error,
) {
	return passage(Try{
		From: End{Local: local}, To: End{Public: remote}, Payload: payload, More: more, Mark: mark, Patience: patience,
	})
}

// passage is a [Passage] of datagrams in one piece, or in fragments.
func passage(t Try) (func() (answered int, err error), error) {
	s, err := open(t.From.Local, t.To.Public, t.Form == Fragments)
	if err != nil {
		return nil, err
	}
	times := tries
	if t.Form == Fragments {
		times = 1 // they need not arrive, and each try waits for an answer
	}
	return func() (int, error) {
		defer s.Close()
		if err := try(s, t.To.Public, t.Payload, t.Mark, t.Patience.wait(), times); err != nil {
			return 0, err
		}
		return burst(s, t.More, t.Mark, tryWait+t.Patience.Trip), nil
	}, nil
}

// firstOfBurst is the number of the first datagram of a burst: none of [try] has it.
const firstOfBurst = 1 << 16

// burst sends small datagrams one after the other and returns how many were answered.
func burst(s sock.Socket, n int, mark []byte, wait time.Duration) (answered int) {
	out, in, seen := append([]byte("0000nettoll burst"), mark...), make([]byte, 1<<16), make([]bool, n)
	for i := range n {
		binary.LittleEndian.PutUint32(out, firstOfBurst+uint32(i))
		s.Send(&out[0], len(out), 0) // one that is not sent is not answered
	}
	await(s, in, wait, func(size int) bool {
		if size == len(out) {
			if i := int(binary.LittleEndian.Uint32(in)) - firstOfBurst; i >= 0 && i < n && !seen[i] {
				seen[i] = true
				answered++
			}
		}
		return answered == n
	})
	return answered
}

// await calls take with the length of each datagram that arrives, until it returns true. It counts how long it has
// waited by receives whose time passed, and not by the clock: while the CPUs are taken from the whole machine nothing
// can arrive, and the clock goes on. What ends a receive at once, as an error that came back (ICMP) or a datagram of
// others, does not count, so that there is a limit by the clock as well.
func await(s sock.Socket, in []byte, wait time.Duration, take func(size int) (done bool)) {
	last := time.Now().Add(longest * wait)
	for waited := time.Duration(0); waited < wait && time.Now().Before(last); {
		size, errno := s.RecvParked(in)
		switch {
		case errno == sock.Again:
			waited += glimpse
		case errno == 0 && take(size):
			return
		}
	}
}

// refusalWait is how long an answer that must not come is waited for.
const refusalWait = 60 * time.Millisecond

// refusal sends datagrams to a [Mirror] that must not be answered, because something on the way refuses them. Call it
// inside the container's network namespace; the returned function may run anywhere. If the kernel refuses to send at
// once (EPERM), the datagram counts as refused.
func refusal(local, remote netip.AddrPort, patience Patience) (func() Seen, error) {
	s, err := open(local, remote, false)
	if err != nil {
		return nil, err
	}
	return func() Seen {
		defer s.Close()
		out, in := []byte("nettoll refusal"), make([]byte, 1<<16)
		for range tries {
			s.Send(&out[0], len(out), 0) // an error is a refusal, too
		}
		var seen Seen
		await(s, in, refusalWait+patience.Trip, func(size int) bool {
			seen.Answered = size > 0
			return seen.Answered
		})
		return seen
	}, nil
}

func open(local, remote netip.AddrPort, fragments bool) (s sock.Socket, err error) {
	err = sock.Rebind(func() (err error) { // the changes of a filter were measured at the same address
		s, err = sock.UDPBeside(local, remote) // one end has several tries at the same time
		return err
	})
	if err != nil {
		return s, err
	}
	if !fragments {
		err = s.SetNoFragment(local.Addr().Is6())
	}
	if err == nil {
		err = s.SetTimeout(glimpse)
	}
	if err != nil {
		s.Close()
	}
	return s, err
}

// full says whether this may mean that the table of neighbours is full (ip6_finish_output2, net/ipv6/ip6_output.c;
// ip_finish_output2, net/ipv4/ip_output.c).
func full(errno sock.Errno, remote netip.AddrPort) bool {
	return errno == syscall.EINVAL && remote.Addr().Is6() || errno == syscall.ENOBUFS && remote.Addr().Is4()
}

const (
	numbered = 4   // bytes of the number of a datagram
	spread   = 256 // bytes from mark to mark: each fragment has one
)

func try(s sock.Socket, remote netip.AddrPort, payload int, mark []byte, wait time.Duration, times int) error {
	out, in := make([]byte, payload), make([]byte, 1<<16)
	for i := range out {
		out[i] = byte(i * 7)
	}
	for at := numbered; at < len(out) && len(mark) > 0; at += spread {
		copy(out[at:], mark)
	}
	lost := busy.Losses()
	room := time.Now().Add(roomWait)
	var last error
	for number := range times {
		binary.LittleEndian.PutUint32(out, uint32(number))
		_, errno := s.Send(&out[0], len(out), 0)
		for full(errno, remote) && time.Now().Before(room) {
			time.Sleep(glimpse) // until there is room
			_, errno = s.Send(&out[0], len(out), 0)
		}
		if errno != 0 {
			last = fmt.Errorf("send %d bytes to %s: %w", payload, remote, errno)
			if mtu, err := s.PathMTU(remote.Addr().Is6()); errno == syscall.EMSGSIZE && err == nil {
				last = fmt.Errorf("%w (a device on the way takes packets of %d bytes at most)", last, mtu)
			}
			if full(errno, remote) {
				last = fmt.Errorf("%w (hint: the kernel says so, too, if its table of neighbours is full, which all network "+
					"namespaces share: see table_fulls in /proc/net/stat)", last)
			}
			continue
		}
		answered := false
		var differs error
		await(s, in, wait, func(size int) bool {
			if size < numbered || binary.LittleEndian.Uint32(in) != uint32(number) {
				return false // the answer to an earlier try
			}
			if answered = true; !bytes.Equal(in[:size], out) {
				differs = fmt.Errorf("answer from %s differs: %d bytes of %d", remote, size, payload)
			}
			return true
		})
		if answered {
			return differs
		}
	}
	if last == nil {
		last = fmt.Errorf("no answer from %s to %d datagrams of %d bytes%s", remote, times, payload, lost())
	}
	return last
}
