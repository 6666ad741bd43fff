package networktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/network"
)

const (
	// patience is how long a packet may take.
	patience = 2 * time.Second
	// count is how many datagrams of each size are sent.
	count = 4
	// small is a payload of the papers' smallest packets, in bytes.
	small = 28
	// stream is how much is sent over TCP, in bytes.
	stream = 1 << 20
	// udpHeader is the length of the header, RFC 768.
	udpHeader = 8
)

// end is one end of a pair.
type end struct {
	name   string
	kernel *host.Kernel
	network.Endpoint
}

// ends finds the sources and sinks of a lab by their names.
func (b *bed) ends(kind string, i int) end {
	for h := range b.lab.Hosts {
		for j, c := range b.lab.Hosts[h].Containers {
			if c.Name == fmt.Sprintf("%s%d", kind, i) {
				return end{c.Name, b.hosts[h].kernel, b.built.Ends[h][j]}
			}
		}
	}
	panic(fmt.Sprintf("networktest: no %s %d", kind, i))
}

// packets sends small and full datagrams and a stream from every source to its sink, in both families.
func packets(t testing.TB, n network.Network, lab network.Lab) (err error) {
	b, err := makeBed(t, n, lab)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.undo()) }()
	if err := b.apply(t); err != nil {
		return err
	}
	if err := b.verify(t); err != nil {
		return fmt.Errorf("after all plans were applied: %w", err)
	}
	pairs := 0
	for _, h := range lab.Hosts {
		pairs += len(h.Containers)
	}
	for i := range pairs / 2 {
		source, sink := b.ends("src", i), b.ends("snk", i)
		for _, ipv6 := range []bool{false, true} {
			from, to, header := source.IPv4, sink.IPv4, 20 // RFC 791 section 3.1
			if ipv6 {
				from, to, header = source.IPv6, sink.IPv6, 40 // RFC 8200 section 3
			}
			full := lab.MTU - header - udpHeader
			if err := errors.Join(
				datagrams(source, sink, from, to, small, full),
				tooLarge(source, from, to, full+1),
				transfer(source, sink, from, to),
			); err != nil {
				return fmt.Errorf("%s to %s, %s to %s: %w", source.name, sink.name, from, to, err)
			}
		}
	}
	return nil
}

// udp opens a socket in the namespace of an end that does not let its datagrams be fragmented.
func (e end) udp(a netip.Addr) (c *net.UDPConn, err error) {
	err = e.kernel.Do(e.Namespace, func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
		return err
	})
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		if cerr := raw.Control(func(fd uintptr) { err = sock.Socket{FD: int(fd)}.SetNoFragment(a.Is6()) }); cerr != nil {
			err = cerr
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, c.SetDeadline(time.Now().Add(patience))
}

func datagrams(source, sink end, from, to netip.Addr, sizes ...int) error {
	out, err := source.udp(from)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := sink.udp(to)
	if err != nil {
		return err
	}
	defer in.Close()
	target := in.LocalAddr().(*net.UDPAddr).AddrPort()
	got := make([]byte, 1<<16)
	for _, size := range sizes {
		for i := range count {
			want := pattern(size, byte(i))
			if _, err := out.WriteToUDPAddrPort(want, target); err != nil {
				return fmt.Errorf("send a datagram of %d bytes: %w", size, err)
			}
			n, sender, err := in.ReadFromUDPAddrPort(got)
			if err != nil {
				return fmt.Errorf("receive datagram %d of %d bytes: %w", i, size, err)
			}
			if sender := sender.Addr().Unmap(); sender != from {
				return fmt.Errorf("a datagram of %d bytes comes from %s, want %s", size, sender, from)
			}
			if !bytes.Equal(got[:n], want) {
				return fmt.Errorf("datagram %d of %d bytes arrives as %d others", i, size, n)
			}
		}
	}
	return nil
}

// tooLarge wants a datagram that is larger than the MTU to be refused: the MTU is the lab's, not more.
func tooLarge(source end, from, to netip.Addr, size int) error {
	out, err := source.udp(from)
	if err != nil {
		return err
	}
	defer out.Close()
	const discard = 9 // RFC 863
	_, err = out.WriteToUDPAddrPort(pattern(size, 0), netip.AddrPortFrom(to, discard))
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		return nil
	case err != nil:
		return fmt.Errorf("send a datagram of %d bytes, one more than fits, is refused otherwise than for its size: %w", size, err)
	}
	return fmt.Errorf("send a datagram of %d bytes, one more than fits: it is sent", size)
}

func transfer(source, sink end, from, to netip.Addr) error {
	var listener *net.TCPListener
	if err := sink.kernel.Do(sink.Namespace, func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to, 0)))
		return err
	}); err != nil {
		return err
	}
	defer listener.Close()
	if err := listener.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	want := pattern(stream, 7)
	received := make(chan error, 1)
	go func() {
		received <- func() error {
			c, err := listener.AcceptTCP()
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				return err
			}
			got, err := io.ReadAll(c)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("%d bytes arrive as %d others", len(want), len(got))
			}
			return nil
		}()
	}()
	// The socket is made on the calling thread, as there is no name to look up.
	var c net.Conn
	err := source.kernel.Do(source.Namespace, func() (err error) {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: patience}
		c, err = d.Dial("tcp", listener.Addr().String())
		return err
	})
	if err != nil {
		return errors.Join(err, listener.Close(), <-received)
	}
	err = c.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = c.Write(want)
	}
	err = errors.Join(err, c.Close(), <-received)
	if err != nil {
		return fmt.Errorf("send %d bytes over TCP: %w", len(want), err)
	}
	return nil
}

func pattern(size int, first byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = first + byte(i%251)
	}
	return b
}
