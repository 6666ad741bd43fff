package lasting

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
)

// ReconnectLimit is how long both ends try to restore their connections after a trial has lost them.
const ReconnectLimit = 500 * time.Millisecond

// Connections holds the connections of one end.
type Connections struct {
	Sockets []sock.Socket // FD is -1 if there is no connection
	Broken  bool          // they cannot carry a trial

	home   *os.File // the container's namespace, for new sockets
	remote netip.AddrPort
}

// New makes room for this many connections, without making them. The calling thread must be in the container's
// namespace.
func New(n int) (Connections, error) {
	home, err := netns.Current()
	if err != nil {
		return Connections{}, err
	}
	c := Connections{Sockets: make([]sock.Socket, n), Broken: true, home: home}
	for i := range c.Sockets {
		c.Sockets[i].FD = -1
	}
	return c, nil
}

// Way is how a source reaches its sink.
type Way struct {
	Local  netip.AddrPort // of the first connection
	Ports  int            // how many ports from that on belong to the source, at least 1; the kernel chooses the others
	Remote netip.AddrPort
}

// Dial begins to make the connections of a source, all at the same time, and calls ready for each before. If one fails,
// none is left.
func (c *Connections) Dial(w Way, ready func(sock.Socket) error) error {
	err := c.dial(w, ready)
	if err != nil {
		c.Drop()
	}
	return err
}

func (c *Connections) dial(w Way, ready func(sock.Socket) error) error {
	err := netns.Do(int(c.home.Fd()), func() (err error) {
		for i := range c.Sockets {
			local := netip.AddrPortFrom(w.Local.Addr(), 0)
			if i < max(1, w.Ports) {
				local = netip.AddrPortFrom(local.Addr(), w.Local.Port()+uint16(i))
			}
			if c.Sockets[i], err = sock.Stream(local, ""); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.remote = w.Remote
	to := sock.NewAddress(w.Remote)
	for _, s := range c.Sockets {
		if err := ready(s); err != nil {
			return err
		}
		if err := s.BeginConnect(&to); err != nil {
			return c.failed(err)
		}
	}
	return nil
}

func (c *Connections) failed(err error) error { return fmt.Errorf("connect to %s: %w", c.remote, err) }

// Ready waits up to timeout until the connections of a source are made, like [workload.Readier]. If one fails, none is
// left.
//
// [workload.Readier]: https://pkg.go.dev/github.com/nettoll/nettoll/workload#Readier
func (c *Connections) Ready(timeout time.Duration) error {
	until := time.Now().Add(timeout)
	for _, s := range c.Sockets {
		if err := s.EndConnect(time.Until(until)); err != nil {
			c.Drop()
			return c.failed(err)
		}
	}
	c.Broken = false
	return nil
}

// Listen opens the listening socket. Connections inherit its options (sk_clone_lock, net/core/sock.c).
func (c *Connections) Listen(local netip.AddrPort, options sock.Options) (listener sock.Socket, err error) {
	listener.FD = -1
	err = netns.Do(int(c.home.Fd()), func() (err error) {
		listener, err = sock.Stream(local, "")
		return err
	})
	if err != nil {
		return listener, err
	}
	if err := listener.Set(options); err != nil {
		return listener, err
	}
	return listener, listener.Listen()
}

// Accept accepts the source's connections, and calls ready for each. It skips connections that are already over, from
// attempts that the source has abandoned.
func (c *Connections) Accept(listener sock.Socket, timeout time.Duration, ready func(sock.Socket) error) error {
	until := time.Now().Add(timeout)
	for i := 0; i < len(c.Sockets); {
		s, err := listener.Accept(time.Until(until))
		if err != nil {
			return err
		}
		if !idle(s) {
			s.Abort()
			continue
		}
		c.Sockets[i] = s
		i++
		if err := ready(s); err != nil {
			return err
		}
	}
	c.Broken = false
	return nil
}

// Stand reports whether the connections can carry a trial: all exist and have nothing to receive. Otherwise the other
// end has closed one, or has sent data that belongs to no trial.
func (c *Connections) Stand() bool {
	for _, s := range c.Sockets {
		c.Broken = c.Broken || !idle(s)
	}
	return !c.Broken
}

// idle reports whether a connection exists and has nothing to receive.
func idle(s sock.Socket) bool {
	var b [1]byte
	_, errno := s.Recv(&b[0], 1, sock.DontWait)
	return errno == sock.Again
}

// Drop ends the connections, for both ends.
func (c *Connections) Drop() {
	c.Broken = true
	for i := range c.Sockets {
		c.Sockets[i].Abort()
		c.Sockets[i].FD = -1
	}
}

// Close closes the connections for good.
func (c *Connections) Close() {
	for _, s := range c.Sockets {
		s.Close()
	}
	_ = c.home.Close()
}
