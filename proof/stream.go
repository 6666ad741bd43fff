package proof

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
)

// A listener answers what comes over a TCP connection to its address with the same bytes, until it is closed.
type listener struct {
	sock       sock.Socket
	stop, done chan struct{}
}

// newListener opens one. Call it inside the container's network namespace.
func newListener(local netip.AddrPort) (*listener, error) {
	s, err := openStream(local)
	if err == nil {
		err = s.Listen()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	l := &listener{sock: s, stop: make(chan struct{}), done: make(chan struct{})}
	go l.serve()
	return l, nil
}

func (l *listener) serve() {
	defer close(l.done)
	buf := make([]byte, 1<<12)
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		c, err := l.sock.Accept(glimpse)
		if err != nil {
			continue // nobody has called yet
		}
		if c.SetTimeout(glimpse) == nil {
			l.answer(c, buf)
		}
		c.Abort()
	}
}

// answer answers a connection until its other end closes it.
func (l *listener) answer(c sock.Socket, buf []byte) {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		n, errno := c.RecvParked(buf)
		switch {
		case errno == sock.Again:
		case errno != 0 || n == 0:
			return
		default:
			c.Send(&buf[0], n, 0) // what cannot be answered is missed by the other end
		}
	}
}

// Close ends it.
func (l *listener) Close() {
	close(l.stop)
	<-l.done
	l.sock.Close()
}

// call sends a mark to a [listener], and sees whether it comes back. Call it inside the container's network namespace;
// the returned function may run anywhere.
func call(local, remote netip.AddrPort, mark []byte, patience Patience) (func() Seen, error) {
	s, err := openStream(local)
	if err != nil {
		return nil, err
	}
	return func() Seen {
		defer s.Abort() // the next proof has the same address
		if err := s.Connect(remote, patience.wait()); err != nil {
			return Seen{Detail: err.Error()}
		}
		if err := s.SetTimeout(glimpse); err != nil {
			return Seen{Detail: err.Error()}
		}
		out, in := append([]byte("nettoll stream"), mark...), make([]byte, 1<<12)
		s.Send(&out[0], len(out), 0) // what is not sent is not answered
		got := 0
		for end := time.Now().Add(patience.wait()); got < len(out) && time.Now().Before(end); {
			n, errno := s.RecvParked(in[got:])
			if errno != 0 && errno != sock.Again || errno == 0 && n == 0 {
				break
			}
			got += max(n, 0)
		}
		if !bytes.Equal(in[:got], out) {
			return Seen{Detail: fmt.Sprintf("%d of %d bytes over TCP come back from %s", got, len(out), remote)}
		}
		return Seen{Answered: true}
	}, nil
}

func openStream(local netip.AddrPort) (s sock.Socket, err error) {
	err = sock.Rebind(func() (err error) {
		s, err = sock.Stream(local, "")
		return err
	})
	return s, err
}
