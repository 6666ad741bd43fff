package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/packet"
)

// in opens something in a namespace. What was bound there before may be about to go.
func in[T any](ns *os.File, open func() (T, error)) (c T, err error) {
	err = netns.Do(int(ns.Fd()), func() error {
		return sock.Rebind(func() (err error) {
			c, err = open()
			return err
		})
	})
	return c, err
}

func listenUDP(ns *os.File, at netip.AddrPort) (*net.UDPConn, error) {
	return in(ns, func() (*net.UDPConn, error) { return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)) })
}

func listenTCP(ns *os.File, at netip.AddrPort) (*net.TCPListener, error) {
	return in(ns, func() (*net.TCPListener, error) { return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)) })
}

// dial opens a connection from a container, from any port.
func (e *end) dial(to netip.AddrPort, within time.Duration) (net.Conn, error) {
	return in(e.ns, func() (net.Conn, error) {
		from := net.TCPAddrFromAddrPort(netip.AddrPortFrom(e.Own(to.Addr().Is6()), 0))
		return (&net.Dialer{LocalAddr: from, Timeout: within}).Dial("tcp", to.String())
	})
}

// connects says whether a service of that port accepts a container's connection.
func (e *end) connects(to netip.AddrPort, within time.Duration) bool {
	c, err := e.dial(to, within)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// accept takes connections and closes them, until the listener is closed.
func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

// sockets sends what sockets can, from every container to every other: datagrams from one of its own ports and from one
// that is nobody's, connections, echoes, and a protocol that nobody has.
func (s *stand) sockets(ctx context.Context) (Held, error) {
	var open []interface{ Close() error }
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	var list []probe
	for _, v6 := range families() {
		for _, e := range s.ends {
			for _, port := range s.doors(e) {
				l, err := listenTCP(e.ns, netip.AddrPortFrom(e.Own(v6), port))
				if err != nil {
					return Held{}, err
				}
				open = append(open, l)
				go accept(l)
			}
		}
		for _, from := range s.ends {
			// From the first of these a source sends and a sink answers, the second is nobody's.
			var outs []*net.UDPConn
			for _, port := range []uint16{from.First + opened, nobodys} {
				out, err := listenUDP(from.ns, netip.AddrPortFrom(from.Own(v6), port))
				if err != nil {
					return Held{}, err
				}
				outs, open = append(outs, out), append(open, out)
			}
			for _, to := range s.ends {
				if from != to {
					list = append(list, s.bySockets(from, to, v6, outs)...)
				}
			}
		}
	}
	return s.held(ctx, Sockets, "what sockets of a container send to another one passes if it is on the list, and "+
		"nothing else does", list)
}

// doors are the ports at which a container listens: its first, and one more. The last one of a sink is not on the list;
// the last ones of a source may be those of its own connections.
func (s *stand) doors(e *end) []uint16 {
	if slices.ContainsFunc(s.Pairs, func(p proof.Pair) bool { return p.Source == e.Name }) {
		return []uint16{e.First, e.First + replied}
	}
	return []uint16{e.First, e.Last}
}

// bySockets are the probes of sockets from one container to another.
func (s *stand) bySockets(from, to *end, v6 bool, outs []*net.UDPConn) (list []probe) {
	family := map[bool]string{false: "ipv4", true: "ipv6"}[v6]
	add := func(text string, want bool, p probe) {
		p.text, p.v6, p.from, p.expect = text, v6, from, expect(want)
		list = append(list, p)
	}
	for way, target := range to.Targets(v6) {
		public := way == 0 && s.listed(v6)
		for _, port := range s.doors(to) {
			at := netip.AddrPortFrom(target, port)
			may := public && s.paired(from, to) && port == to.First
			answer := public && !s.Stateful && s.paired(to, from) // a datagram that looks like one
			for i, out := range outs {
				add(fmt.Sprintf("udp %s from %s#%d to %s:%d", family, from.Name, i, at, way), (may || answer) && i == 0,
					probe{to: to, port: port, send: func(key string) (int, error) {
						_, err := out.WriteToUDPAddrPort([]byte(key), at)
						return 1, err
					}})
			}
			add(fmt.Sprintf("tcp %s from %s to %s", family, from.Name, at), may,
				probe{asks: func(within time.Duration) bool { return from.connects(at, within) }})
		}
		if s.translates() {
			continue // what has no ports is for the host itself
		}
		add(fmt.Sprintf("icmp %s from %s to %s", family, from.Name, target), s.listed(v6) && s.paired(from, to),
			probe{asks: func(within time.Duration) bool {
				return echoed(from.ns, from.Own(v6), target, small, within) == nil
			}})
		add(fmt.Sprintf("protocol %d, %s from %s to %s", experimental, family, from.Name, target), false,
			probe{send: func(key string) (int, error) { return 1, from.shout(target, key) }})
	}
	return list
}

// shout sends a packet of a protocol that nobody has, by a socket.
func (e *end) shout(to netip.Addr, text string) error {
	network := fmt.Sprintf("ip4:%d", experimental)
	if to.Is6() {
		network = fmt.Sprintf("ip6:%d", experimental)
	}
	c, err := in(e.ns, func() (*net.IPConn, error) {
		return net.ListenIP(network, &net.IPAddr{IP: e.Own(to.Is6()).AsSlice()})
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WriteToIP([]byte(text), &net.IPAddr{IP: to.AsSlice()})
	return err
}

// echoed asks for an echo of some bytes. The error says that it did not come, or why.
func echoed(ns *os.File, from, to netip.Addr, size int, within time.Duration) error {
	network, kind, reply, protocol := "ip4:icmp", icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply),
		packet.ICMP
	var pseudo []byte // that of IPv4 has none in its checksum
	if to.Is6() {
		network, kind, reply, protocol = "ip6:ipv6-icmp", ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, packet.ICMPv6
		pseudo = icmp.IPv6PseudoHeader(from.AsSlice(), to.AsSlice())
	}
	c, err := in(ns, func() (*net.IPConn, error) { return net.ListenIP(network, &net.IPAddr{IP: from.AsSlice()}) })
	if err != nil {
		return err
	}
	defer c.Close()
	id := int(to.As16()[15])<<8 | int(from.As16()[15])
	question := icmp.Message{Type: kind, Body: &icmp.Echo{
		ID: id, Seq: size & 0xffff, Data: bytes.Repeat([]byte{'e'}, size),
	}}
	data, err := question.Marshal(pseudo)
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := c.WriteToIP(data, &net.IPAddr{IP: to.AsSlice()}); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for {
		n, sender, err := c.ReadFromIP(buf)
		if err != nil {
			return fmt.Errorf("an echo of %d bytes is not answered: %w", size, err)
		}
		m, err := icmp.ParseMessage(protocol, buf[:n])
		if err != nil {
			continue
		}
		answer, ok := m.Body.(*icmp.Echo)
		if ok && m.Type == reply && answer.ID == id && answer.Seq == size&0xffff && len(answer.Data) == size &&
			sender.IP.Equal(to.AsSlice()) {
			return nil
		}
	}
}

// alone sends a piece that is not the first of its packet, which holds no ports, from each container to each other, one
// after another. A filter that lets such pieces pass by their addresses lets pass those of pairs, both ways where it
// knows no connections; one that puts packets together lets none pass. What reaches a container is in its own count of
// pieces to be put together (ReasmReqds, RFC 4293). Where filters stand inside, the stack puts pieces together before.
func (s *stand) alone(ctx context.Context) (Held, error) {
	h := newHeld(Pieces, "a piece of a packet that holds no ports passes only where the filter says that it decides "+
		"those by their addresses", "the receiver is asked to put pieces together, or not")
	if s.Inside || s.translates() {
		return h.done(), nil
	}
	for _, v6 := range families() {
		for _, from := range s.ends {
			for _, to := range s.ends {
				if from == to || s.ByAddress && s.listed(v6) && s.paired(to, from) {
					// It may be one of an answer: some tell, some cannot. If it were sent it could come while the next one is
					// waited for.
					continue
				}
				if err := ctx.Err(); err != nil {
					return h, err
				}
				may := s.ByAddress && s.listed(v6) && s.paired(from, to)
				got, err := s.piece(from, to, v6, may)
				if err != nil {
					return h, err
				}
				wrong := ""
				if got != may {
					wrong = told(fmt.Sprintf("a fragment without the first of its packet: it passes: %t, want %t", got, may),
						from, to, v6)
				}
				h.saw(v6, wrong)
			}
		}
	}
	return h.done(), nil
}

// unhurried is how long what has to arrive is waited for, and a reader that has nothing to do with who sends.
const unhurried = 2 * time.Second

// piece sends the second piece of a datagram, and says whether it came.
func (s *stand) piece(from, to *end, v6, may bool) (bool, error) {
	before, err := to.reassembling(v6)
	if err != nil {
		return false, err
	}
	err = netns.Do(int(from.ns.Fd()), func() error { return second(from.Own(v6), to.Own(v6)) })
	if err != nil && !refusedAtOnce(err) {
		return false, fmt.Errorf("send a fragment from %s to %s: %w", from.Name, to.Name, err)
	}
	deadline := time.Now().Add(unhurried)
	if !may {
		deadline = time.Now().Add(10 * time.Millisecond)
	}
	for {
		after, err := to.reassembling(v6)
		if err != nil || after > before {
			return after > before, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		time.Sleep(time.Millisecond)
	}
}

// second sends the second piece of a datagram from the calling thread's namespace, by its routes.
func second(from, to netip.Addr) error {
	payload := make([]byte, 64)
	const units = 185 // the offset in units of 8 bytes: 1480
	if to.Is4() {
		// RFC 791, section 3.1: the kernel fills in length and checksum.
		h := packet.IP(from, to, packet.UDP, packet.Hops, payload)
		binary.BigEndian.PutUint16(h[4:], 0x4242)
		binary.BigEndian.PutUint16(h[6:], units)
		return sock.SendRaw(to, h)
	}
	// RFC 8200, section 4.5: a fragment header is what a raw socket of protocol 44 sends.
	h := make([]byte, 8, 8+len(payload))
	h[0] = packet.UDP
	binary.BigEndian.PutUint16(h[2:], units<<3)
	binary.BigEndian.PutUint32(h[4:], 0x42424242)
	return sock.SendRaw(to, append(h, payload...))
}

// reassembling returns how many pieces a container was asked to put together.
func (e *end) reassembling(v6 bool) (n uint64, err error) {
	err = netns.Do(int(e.ns.Fd()), func() error {
		ipv4, ipv6, err := procfs.Fragments()
		if n = ipv4; v6 {
			n = ipv6
		}
		return err
	})
	return n, err
}
