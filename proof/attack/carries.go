package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/busy"
)

const (
	// small is the payload of small packets in bytes, largest that of the largest datagram of IPv4: 65,535 bytes less the
	// headers.
	small, largest = 28, 65_507
	// stream is how much is sent over TCP each way, and a word what is said once in a while, in bytes.
	stream, word = 1 << 20, 1 << 16
)

// talks has the ends of each pair exchange small datagrams.
func (s *stand) talks(context.Context) (Held, error) {
	h := newHeld(Talks, "every pair exchanges small datagrams", "each arrives, and is answered, equal byte by byte")
	return s.eachPair(h, func(source, sink *end, v6 bool) error { return s.datagrams(source, sink, v6, small) })
}

// carries has a source exchange echoes, datagrams and a stream with its sink, each at its largest.
func (s *stand) carries(context.Context) (Held, error) {
	h := newHeld(Carries, "every pair passes echoes, datagrams and a stream both ways, each at its largest",
		"each arrives, and is answered, equal byte by byte")
	translates := s.translates()
	return s.eachPair(h, func(source, sink *end, v6 bool) error {
		full := proof.FullPayload(s.MTU, v6)
		if !translates {
			for _, size := range []int{2 * small, full, 4 * s.MTU} {
				if err := echoed(source.ns, source.Own(v6), sink.Own(v6), size, unhurried); err != nil {
					return err
				}
			}
		}
		if err := s.datagrams(source, sink, v6, small, full, largest); err != nil {
			return err
		}
		c, err := connect(source, sink, v6, sink.First+1)
		if err != nil {
			return fmt.Errorf("connect over TCP: %w", err)
		}
		defer c.close()
		return c.say(stream)
	})
}

// eachPair tries something with each pair in each family of the list.
func (s *stand) eachPair(h Held, try func(source, sink *end, v6 bool) error) (Held, error) {
	s.pairs(func(source, sink *end) {
		for _, v6 := range families() {
			if !s.listed(v6) {
				continue
			}
			wrong := ""
			if err := try(source, sink, v6); err != nil {
				wrong = fmt.Sprintf("%s to %s, %s to %s: %v", source.Name, sink.Name, source.Own(v6), sink.Public(v6), err)
			}
			h.saw(v6, wrong)
		}
	})
	return h.done(), nil
}

// datagrams sends some of each size. Each of them must be answered. Few are sent once more, and only if other work is
// to blame (see [stand.watch]).
func (s *stand) datagrams(source, sink *end, v6 bool, sizes ...int) error {
	out, err := listenUDP(source.ns, netip.AddrPortFrom(source.Own(v6), source.First))
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := listenUDP(sink.ns, netip.AddrPortFrom(sink.Own(v6), sink.First))
	if err != nil {
		return err
	}
	defer in.Close()
	const each = 3
	again := 0
	for _, size := range sizes {
		for i := range each {
			for {
				excused := s.watch()
				err = exchange(out, in, source, sink, v6, bytes.Repeat([]byte{byte(size + i)}, size))
				if err == nil {
					break
				}
				again++
				if !errors.Is(err, os.ErrDeadlineExceeded) || again > busy.Few(each*len(sizes)) || !excused() {
					return fmt.Errorf("datagram %d of %d bytes: %w", i, size, err)
				}
			}
		}
	}
	return nil
}

// exchange sends a datagram, and its answer.
func exchange(out, in *net.UDPConn, source, sink *end, v6 bool, want []byte) error {
	deadline := time.Now().Add(unhurried)
	if err := errors.Join(out.SetDeadline(deadline), in.SetDeadline(deadline)); err != nil {
		return err
	}
	before, err := sink.reassembling(v6)
	if err != nil {
		return err
	}
	if _, err := out.WriteToUDPAddrPort(want, netip.AddrPortFrom(sink.Public(v6), sink.First)); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	n, from, err := in.ReadFromUDPAddrPort(buf)
	if err != nil || !bytes.Equal(buf[:n], want) {
		after, _ := sink.reassembling(v6)
		return fmt.Errorf("it arrives as %d others, after %d fragments (%w)", n, after-before, err)
	}
	if before, err = source.reassembling(v6); err != nil {
		return err
	}
	if _, err := in.WriteToUDPAddrPort(want, from); err != nil {
		return fmt.Errorf("answer it: %w", err)
	}
	if n, _, err = out.ReadFromUDPAddrPort(buf); err != nil || !bytes.Equal(buf[:n], want) {
		after, _ := source.reassembling(v6)
		return fmt.Errorf("the answer arrives as %d others, after %d fragments (%w)", n, after-before, err)
	}
	return nil
}

// conversation is a connection, both ends.
type conversation struct{ source, sink net.Conn }

// connect opens a connection from a source to a port of its sink, which listens at it meanwhile.
func connect(source, sink *end, v6 bool, port uint16) (*conversation, error) {
	l, err := listenTCP(sink.ns, netip.AddrPortFrom(sink.Own(v6), port))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	out, err := source.dial(netip.AddrPortFrom(sink.Public(v6), port), unhurried)
	if err != nil {
		return nil, err
	}
	if err := l.SetDeadline(time.Now().Add(unhurried)); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	in, err := l.Accept()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &conversation{out, in}, nil
}

func (c *conversation) close() {
	_ = c.source.Close()
	_ = c.sink.Close()
}

// say sends so many bytes each way.
func (c *conversation) say(bytesEach int) error {
	want := bytes.Repeat([]byte("nettoll!"), bytesEach/8)
	for _, way := range []struct{ from, to net.Conn }{{c.source, c.sink}, {c.sink, c.source}} {
		deadline := time.Now().Add(unhurried)
		if err := errors.Join(way.from.SetDeadline(deadline), way.to.SetDeadline(deadline)); err != nil {
			return err
		}
		wrote := make(chan error, 1)
		go func() {
			_, err := way.from.Write(want)
			wrote <- err
		}()
		got := make([]byte, len(want))
		_, err := io.ReadFull(way.to, got)
		if err = errors.Join(err, <-wrote); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%d bytes over TCP do not arrive (%w)", len(want), err)
		}
	}
	return nil
}

// Connections are those between the ends of each pair in each family, for who changes a lab while they stand.
type Connections struct {
	list  []*conversation
	names []string
	v6    []bool
}

// Connect opens them.
func Connect(lab Target) (all *Connections, err error) {
	s := newStand(lab)
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(); err != nil {
		return nil, err
	}
	all = &Connections{}
	s.pairs(func(source, sink *end) {
		for _, v6 := range families() {
			if err != nil || !s.listed(v6) {
				continue
			}
			var c *conversation
			if c, err = connect(source, sink, v6, sink.First); err == nil {
				all.list, all.names = append(all.list, c), append(all.names, fmt.Sprintf("%s to %s", source.Name, sink.Name))
				all.v6 = append(all.v6, v6)
			} else {
				err = fmt.Errorf("connect %s to %s: %w", source.Name, sink.Public(v6), err)
			}
		}
	})
	if err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// Survive says whether something can still be said over each of them, both ways. When is "after changes".
func (c *Connections) Survive(when string) Held {
	h := newHeld(GoesOn, "connections of pairs go on "+when, "what is said arrives, equal byte by byte")
	for i, one := range c.list {
		wrong := ""
		if err := one.say(word); err != nil {
			wrong = fmt.Sprintf("the connection %s, %s: %v", c.names[i], when, err)
		}
		h.saw(c.v6[i], wrong)
	}
	return h.done()
}

// Close closes them.
func (c *Connections) Close() {
	for _, one := range c.list {
		one.close()
	}
}
