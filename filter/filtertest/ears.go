package filtertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/packet"
)

// ears are sockets that listen, and what they have heard.
type ears struct {
	mu      sync.Mutex
	came    map[string]int
	closers []func() error
	group   sync.WaitGroup
	stray   []stray
}

func (e *ears) note(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.came[key]++
}

func (e *ears) count(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.came[key]
}

func (e *ears) close() {
	for _, c := range e.closers {
		_ = c()
	}
	e.group.Wait()
}

// listen hears datagrams and accepts connections at a port.
func (e *ears) listen(at end, family string, port uint16) error {
	address := netip.AddrPortFrom(at.Bind(family), port)
	in, err := udp(at, address)
	if err != nil {
		return err
	}
	e.closers = append(e.closers, in.Close)
	e.group.Go(func() { e.hear(func(b []byte) (int, error) { return first(in.ReadFromUDPAddrPort(b)) }) })
	l, err := inside(at, func() (*net.TCPListener, error) {
		return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(address))
	})
	if err != nil {
		return err
	}
	e.accept(l)
	return nil
}

// accept takes connections and closes them, until the listener is closed.
func (e *ears) accept(l net.Listener) {
	e.closers = append(e.closers, l.Close)
	e.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
}

// raw hears packets of a protocol that nobody has.
func (e *ears) raw(at end, family string) error {
	in, err := inside(at, func() (*net.IPConn, error) {
		return net.ListenIP(protocolOf(family), &net.IPAddr{IP: at.Bind(family).AsSlice()})
	})
	if err != nil {
		return err
	}
	e.closers = append(e.closers, in.Close)
	e.group.Go(func() { e.hear(func(b []byte) (int, error) { return first(in.ReadFromIP(b)) }) })
	return nil
}

func first[T any](n int, _ T, err error) (int, error) { return n, err }

func (e *ears) hear(read func([]byte) (int, error)) {
	buf := make([]byte, 1<<16)
	for {
		n, err := read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			e.note(string(buf[:n]))
		}
	}
}

// forwarded is behind a key where the packet of a frame has fewer hops to go than at first.
const forwarded = " forwarded"

// find hears what has a key between other bytes, see [way.key]. What a container has sent itself may come back to it,
// in an error of its host's.
func (e *ears) find(at end, read func([]byte) (int, error)) {
	buf := make([]byte, 1<<16)
	for {
		n, err := read(buf)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, fs.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		_, rest, ok := bytes.Cut(buf[:n], []byte("<<"))
		key, _, closed := bytes.Cut(rest, []byte(">>"))
		key = bytes.TrimLeft(key, "<") // a checksum before it may end like its beginning
		if ok && closed && !bytes.HasPrefix(key, []byte(at.name+" ")) {
			e.note("<<" + string(key) + ">>")
			if n > 21 && binary.BigEndian.Uint16(buf[12:]) == packet.TypeIPv6 && buf[21] < packet.NDHops {
				e.note("<<" + string(key) + ">>" + forwarded)
			}
		}
	}
}

// messages hears the packets that a container's own filter lets in, by protocol: those of ICMP, and those of UDP and
// TCP whatever their ports.
func (e *ears) messages(at end) error {
	for _, c := range []struct{ network, family string }{
		{"ip4:icmp", "ipv4"},
		{"ip4:58", "ipv4"},
		{"ip6:ipv6-icmp", "ipv6"},
		{"ip6:1", "ipv6"},
		{"ip4:udp", "ipv4"},
		{"ip4:tcp", "ipv4"},
		{"ip6:udp", "ipv6"},
		{"ip6:tcp", "ipv6"},
	} {
		in, err := inside(at, func() (*net.IPConn, error) {
			return net.ListenIP(c.network, &net.IPAddr{IP: at.Bind(c.family).AsSlice()})
		})
		if err != nil {
			return err
		}
		e.closers = append(e.closers, in.Close)
		e.group.Go(func() { e.find(at, func(b []byte) (int, error) { return first(in.ReadFromIP(b)) }) })
	}
	return nil
}

// stray is a fragment without the first of its packet.
type stray struct {
	from, to end
	family   string
	target   netip.Addr
}

func (e *ears) fragment(from, to end, family string, target netip.Addr) {
	e.stray = append(e.stray, stray{from, to, family, target})
}

// fragments sends a fragment that is not the first of its packet, which holds no ports, from each container to each
// other, one after another. A filter that lets such fragments pass by their addresses lets pass those of pairs, both
// ways where it knows no connections; one that puts packets together lets none pass. What reaches a container is in its
// own count of fragments to be put together (ReasmReqds, RFC 4293).
func (e *ears) fragments(c *trial, listed func(string) bool, paired func(a, b end) bool) error {
	for _, s := range e.stray {
		if c.fragments == filter.ByAddress && listed(s.family) && paired(s.to, s.from) {
			// it may be one of an answer: some tell, some cannot. If it were sent it could come while the next is waited for
			continue
		}
		before, err := reassembling(s.to, s.family)
		if err != nil {
			return err
		}
		if err := s.send(); err != nil && !refusedAtOnce(err) {
			return fmt.Errorf("send a fragment from %s to %s: %w", s.from.name, s.target, err)
		}
		may := c.fragments == filter.ByAddress && listed(s.family) && paired(s.from, s.to)
		deadline := time.Now().Add(patience)
		if !may {
			deadline = time.Now().Add(settle / 30)
		}
		got := false
		for !got && time.Now().Before(deadline) {
			after, err := reassembling(s.to, s.family)
			if err != nil {
				return err
			}
			if got = after > before; !got {
				time.Sleep(time.Millisecond)
			}
		}
		if got != may {
			return fmt.Errorf("a fragment without the first of its packet, %s from %s to %s: it passes: %t, want %t "+
				"(fragments: %s)", s.family, s.from.name, s.target, got, may, c.fragments)
		}
	}
	return nil
}

// send sends the second fragment of a datagram.
func (s stray) send() error {
	payload := make([]byte, 64)
	const udpProtocol, units = 17, 185 // the offset in units of 8 bytes: 1480
	if s.family == "ipv4" {
		// RFC 791, section 3.1: the kernel fills in length, checksum and, where it is 0, the source.
		h := make([]byte, 20, 20+len(payload))
		h[0], h[8], h[9] = 0x45, 64, udpProtocol
		binary.BigEndian.PutUint16(h[4:], 0x4242)
		binary.BigEndian.PutUint16(h[6:], units)
		source, target := s.from.Bind("ipv4").As4(), s.target.As4()
		copy(h[12:], source[:])
		copy(h[16:], target[:])
		return s.raw(append(h, payload...))
	}
	// RFC 8200, section 4.5: a fragment header is what a raw socket of protocol 44 sends.
	h := make([]byte, 8, 8+len(payload))
	h[0] = udpProtocol
	binary.BigEndian.PutUint16(h[2:], units<<3)
	binary.BigEndian.PutUint32(h[4:], 0x42424242)
	return s.raw(append(h, payload...))
}

func (s stray) raw(packet []byte) error {
	_, err := inside(s.from, func() (struct{}, error) { return struct{}{}, sock.SendRaw(s.target, packet) })
	return err
}

// reassembling returns how many fragments an end was asked to put together.
func reassembling(e end, family string) (n int, err error) {
	_, err = inside(e, func() (struct{}, error) {
		n, err = readReassembling(family)
		return struct{}{}, err
	})
	return n, err
}

func readReassembling(family string) (int, error) {
	if family == "ipv6" {
		data, err := os.ReadFile("/proc/thread-self/net/snmp6")
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "Ip6ReasmReqds" {
				return strconv.Atoi(f[1])
			}
		}
		return 0, errors.New("no Ip6ReasmReqds in /proc/net/snmp6")
	}
	data, err := os.ReadFile("/proc/thread-self/net/snmp")
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "Ip:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, name := range names {
			if name == "ReasmReqds" && i < len(f) {
				return strconv.Atoi(f[i])
			}
		}
	}
	return 0, errors.New("no ReasmReqds in /proc/net/snmp")
}
