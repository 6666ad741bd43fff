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
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
)

const (
	// patience is how long a packet may take.
	patience = 2 * time.Second
	// Exchanged is how many datagrams of each size are sent.
	Exchanged = 4
	// small is a payload of the papers' smallest packets, in bytes.
	small = 28
	// stream is how much is sent over TCP, in bytes.
	stream = 1 << 20
	// udpHeader is the length of the header, RFC 768, and tcpHeader that of one with timestamps, RFC 9293 section 3.1 and
	// RFC 7323 section 3.2.
	udpHeader = 8
	tcpHeader = 20 + 12
	// largest is the payload of the largest datagram of IPv4, in bytes: RFC 791 section 3.1.
	largest = 1<<16 - 1 - 20 - udpHeader
)

// seriesPatience is how long a stream, or datagrams of all sizes, may take: longer in a guest, whose emulated
// processors may have to encrypt them, than on a machine that has other things to do.
func seriesPatience() time.Duration {
	if testnet.Guest() {
		return 10 * patience
	}
	return 5 * patience
}

// end is one end of a pair.
type end struct {
	name   string
	kernel *host.Kernel
	ports  network.Ports
	network.Endpoint
}

// bind is where a socket of the end is, by the family and the number of its port among those of the container.
func (e end) bind(family string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(e.Bind(family), e.ports.First+port)
}

// public is what the other end knows of such a socket.
func (e end) public(family string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(e.Public(family), e.ports.First+port)
}

// Numbers of ports that are used for one thing each.
const (
	portForth = iota
	portBack
	portDiscarding
	portStream
	portStreamBack
	portLargest
)

// ends finds the sources and sinks of a lab by their names.
func (b *Bed) ends(kind string, i int) end {
	for h := range b.Lab.Hosts {
		for j, c := range b.Lab.Hosts[h].Containers {
			if c.Name == fmt.Sprintf("%s%d", kind, i) {
				return end{c.Name, b.Hosts[h].Kernel, c.Ports, b.Ends[h][j]}
			}
		}
	}
	panic(fmt.Sprintf("networktest: no %s %d", kind, i))
}

// packets sends between every source and its sink, in both families: datagrams both ways, small, full and the largest
// there are, which are cut to fragments; a stream in segments of full size; and echoes, unless the network says that it
// translates.
func packets(t testing.TB, n network.Network, labs ...network.Lab) error {
	var errs []error
	for _, lab := range labs {
		errs = append(errs, packetsOf(t, n, lab))
	}
	return errors.Join(errs...)
}

func packetsOf(t testing.TB, n network.Network, lab network.Lab) (err error) {
	b, err := MakeBed(t, n, lab)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Undo()) }()
	if err := b.Apply(t); err != nil {
		return err
	}
	if err := b.Verify(t); err != nil {
		return fmt.Errorf("after all plans were applied: %w", err)
	}
	return b.Packets(n)
}

// Packets sends what the suite sends between every source and its sink in a lab that stands, see packets.
func (b *Bed) Packets(n network.Network) error {
	lab := b.Lab
	for i := range b.pairs() {
		source, sink := b.ends("src", i), b.ends("snk", i)
		for _, family := range b.families() {
			ip := lab.MTU - ipHeader(family)
			full := ip - udpHeader
			for _, try := range []func() error{
				func() error { return datagrams(source, sink, family, portForth, whole, small, full) },
				func() error { return datagrams(sink, source, family, portBack, whole, small, full) },
				func() error { return datagrams(source, sink, family, portLargest, cut, largest) },
				func() error { return tooLarge(source, sink, family, full+1) },
				func() error { return transfer(source, sink, family, portStream, ip-tcpHeader) },
				func() error {
					if translated(n, lab) {
						return nil
					}
					return echoes(source, sink, family, small, ip-echoHeader)
				},
			} {
				if err := try(); err != nil {
					return fmt.Errorf("%s to %s, %s to %s: %w", source.name, sink.name, source.Bind(family), sink.Public(family), err)
				}
			}
		}
	}
	return nil
}

// Whether datagrams may be cut to fragments.
const (
	whole = false
	cut   = true
)

// udp opens a socket in the namespace of an end.
func (e end) udp(a netip.AddrPort, fragments bool) (c *net.UDPConn, err error) {
	err = sock.Rebind(func() error { // what was bound there before may be about to go
		return e.kernel.Do(e.Namespace, func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(a))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if !fragments {
		err = control(c, func(s sock.Socket) error { return s.SetNoFragment(a.Addr().Is6()) })
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, c.SetDeadline(time.Now().Add(seriesPatience()))
}

// control calls f with the socket of a connection.
func control(c syscall.Conn, f func(sock.Socket) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = raw.Control(func(fd uintptr) { ferr = f(sock.Socket{FD: int(fd)}) })
	return errors.Join(err, ferr)
}

// datagrams sends from one end to the other and has each answered. Both must see the other as its endpoint says it is
// known: what is not translated as it is, what is translated with its public address, and its own port either way.
func datagrams(source, sink end, family string, port uint16, fragments bool, sizes ...int) error {
	out, err := source.udp(source.bind(family, port), fragments)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := sink.udp(sink.bind(family, port), fragments)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, size := range sizes {
		for i := range Exchanged {
			want := pattern(size, byte(i))
			if _, err := out.WriteToUDPAddrPort(want, sink.public(family, port)); err != nil {
				return fmt.Errorf("send a datagram of %d bytes: %w", size, err)
			}
			if err := receive(in, want, source.public(family, port)); err != nil {
				return fmt.Errorf("receive datagram %d of %d bytes: %w", i, size, err)
			}
			if _, err := in.WriteToUDPAddrPort(want, source.public(family, port)); err != nil {
				return fmt.Errorf("answer a datagram of %d bytes: %w", size, err)
			}
			if err := receive(out, want, sink.public(family, port)); err != nil {
				return fmt.Errorf("receive the answer to datagram %d of %d bytes: %w", i, size, err)
			}
		}
	}
	return nil
}

// receive wants a datagram, and that it comes from there.
func receive(c *net.UDPConn, want []byte, from netip.AddrPort) error {
	got := make([]byte, 1<<16)
	n, sender, err := c.ReadFromUDPAddrPort(got)
	if err != nil {
		return err
	}
	if sender := netip.AddrPortFrom(sender.Addr().Unmap(), sender.Port()); sender != from {
		return fmt.Errorf("it comes from %s, want %s", sender, from)
	}
	if !bytes.Equal(got[:n], want) {
		return fmt.Errorf("it arrives as %d other bytes", n)
	}
	return nil
}

// tooLarge wants a datagram that is larger than the MTU to be refused: the MTU is the lab's, not more.
func tooLarge(source, sink end, family string, size int) error {
	out, err := source.udp(source.bind(family, portDiscarding), whole)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = out.WriteToUDPAddrPort(pattern(size, 0), sink.public(family, portDiscarding))
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		return nil
	case err != nil:
		return fmt.Errorf("send a datagram of %d bytes, one more than fits, is refused otherwise than for its size: %w", size,
			err)
	}
	return fmt.Errorf("send a datagram of %d bytes, one more than fits: it is sent", size)
}

// transfer sends a stream, in segments of at least that number of bytes. The sink must see the address by which others
// know the source.
func transfer(source, sink end, family string, port uint16, segment int) error {
	var listener *net.TCPListener
	if err := sock.Rebind(func() error {
		return sink.kernel.Do(sink.Namespace, func() (err error) {
			listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(sink.bind(family, port)))
			return err
		})
	}); err != nil {
		return err
	}
	defer listener.Close()
	if err := listener.SetDeadline(time.Now().Add(seriesPatience())); err != nil {
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
			if got, want := c.RemoteAddr().String(), source.public(family, port).String(); got != want {
				return fmt.Errorf("it comes from %s, want %s", got, want)
			}
			if err := c.SetDeadline(time.Now().Add(seriesPatience())); err != nil {
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
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(source.bind(family, port)), Timeout: patience}
		c, err = d.Dial("tcp", sink.public(family, port).String())
		return err
	})
	if err != nil {
		return errors.Join(err, listener.Close(), <-received)
	}
	err = c.SetDeadline(time.Now().Add(seriesPatience()))
	if err == nil {
		_, err = c.Write(want)
	}
	if err == nil {
		err = control(c.(*net.TCPConn), func(s sock.Socket) error {
			facts, err := s.Facts()
			if err == nil && facts.MSS < segment {
				err = fmt.Errorf("its segments hold %d bytes, and %d fit", facts.MSS, segment)
			}
			return err
		})
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
