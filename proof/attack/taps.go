package attack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/packet"
)

// experimental is a protocol that nobody has (RFC 3692, section 2.1).
const experimental = 253

// Protocols that tunnels, IPsec and others have (IANA).
const (
	ipip   = 4
	ipv6in = 41
	gre    = 47
	esp    = 50
	sctp   = 132
)

// buffer is how much a tap can leave unread, in bytes.
const buffer = 16 << 20

// tick is how often who waits for packets looks whether some were read.
const tick = 10 * time.Millisecond

// A place is where packets are heard.
type place int

const (
	atLink   place = iota // of a container
	inside                // of a container, behind its filter
	onHost                // behind the filters of the host's own
	passedOn              // at the link of a container, by IPv6, and fewer hops to go than neighbour discovery begins with
)

// A receipt is where a try has arrived.
type receipt struct {
	place place
	at    int // index of the host or container
	try   uint32
}

// An answer is what somebody was told of where an address is.
type answer struct {
	at int
	of netip.Addr
}

// taps hear what arrives.
type taps struct {
	mu sync.Mutex
	// came has, by the port that a packet was sent to, that for which it arrived: who translates may change it.
	came    map[receipt]map[uint16]uint16
	count   int                 // packets of tries that were read
	answers map[answer][]string // MAC addresses
	sockets []socket            // that are read
	closers []io.Closer
	group   sync.WaitGroup
}

// A socket is one that a tap reads.
type socket struct {
	sock.Conn
	// refuses says that its counter of drops also has what the kernel refuses: packets whose checksum is wrong
	// (rawv6_rcv_skb, net/ipv6/raw.c), or for which a host has a policy of IPsec (raw_rcv, net/ipv4/raw.c).
	refuses bool
}

func newTaps() *taps {
	return &taps{came: map[receipt]map[uint16]uint16{}, answers: map[answer][]string{}}
}

func (t *taps) close() error {
	var errs []error
	for _, c := range t.closers {
		errs = append(errs, c.Close())
	}
	t.group.Wait()
	return errors.Join(errs...)
}

// got returns the ports for which packets of a try arrived.
func (t *taps) got(p place, at int, number uint32) []uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []uint16
	for port := range t.came[receipt{p, at, number}] {
		list = append(list, port)
	}
	return list
}

// port is that for which a packet of a try arrived, by the one that it was sent to.
func (t *taps) port(p place, at int, number uint32, sent uint16) uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.came[receipt{p, at, number}][sent]
}

// answered returns who has said that they have an address.
func (t *taps) answered(at int, of netip.Addr) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers[answer{at, of}]
}

// quiet waits until no packet of a try has been read, and none has waited to be read, for some ticks in a row, at most
// for limit ticks. It counts ticks and does not look at the clock: when a machine that stood still goes on, much time
// has passed and nothing was read. The error says that packets still wait at the end.
func (t *taps) quiet(ticks, limit int) error {
	unread, _ := t.queues()
	for still, before := 0, t.noted(); still < ticks && limit > 0; limit-- {
		time.Sleep(tick)
		unread, _ = t.queues()
		if now := t.noted(); now != before || unread > 0 {
			still, before = 0, now
		} else {
			still++
		}
	}
	if unread > 0 {
		return fmt.Errorf("%d bytes of packets that arrived were not read in time: the machine is too busy to tell", unread)
	}
	return nil
}

// queues returns how many bytes of packets wait in the sockets of the taps, and how many packets these have dropped
// because they were full: neither have arrived yet, nor were they refused. A socket that is closed has none.
func (t *taps) queues() (waiting, dropped uint64) {
	for _, c := range t.sockets {
		w, d, err := sock.ReceiveQueue(c)
		if err != nil {
			continue
		}
		if waiting += w; !c.refuses {
			dropped += d
		}
	}
	return waiting, dropped
}

// noted returns how many packets of tries have been read.
func (t *taps) noted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// note looks for the number of a try in what arrived, for a port.
func (t *taps) note(p place, at int, port uint16, data, magic []byte) {
	i := bytes.Index(data, magic)
	if i < 0 || len(data) < i+len(magic)+6 {
		return
	}
	key := data[i+len(magic):]
	r := receipt{p, at, binary.BigEndian.Uint32(key)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if t.came[r] == nil {
		t.came[r] = map[uint16]uint16{}
	}
	t.came[r][binary.BigEndian.Uint16(key[4:])] = port
}

// container taps a container: its link, and what is let in behind that and put together.
func (t *taps) container(e *end, magic, forged []byte) error {
	if err := t.raw(e.ns.Fd(), inside, e.index, magic, forged); err != nil {
		return err
	}
	t.sockets = append(t.sockets, socket{Conn: e.frames})
	t.group.Go(func() {
		read(e.frames.Read, func(frame []byte) {
			in := magic
			if isError(frame) {
				in = forged
			}
			t.note(atLink, e.index, destination(frame), frame, in)
			if len(frame) > 21 && binary.BigEndian.Uint16(frame[12:]) == packet.TypeIPv6 && frame[21] < packet.NDHops {
				t.note(passedOn, e.index, 0, frame, in)
			}
			t.told(e.index, frame)
		})
	})
	return nil
}

// host taps a host, behind all filters of its own.
func (t *taps) host(m *machine, magic, forged []byte) error {
	return t.raw(m.ns.Fd(), onHost, m.index, magic, forged)
}

// raw hears all packets of the protocols of tries that are for a namespace itself, behind its filters. Errors of ICMP
// count only if they were forged: others quote what somebody has sent.
func (t *taps) raw(ns uintptr, where place, at int, magic, forged []byte) error {
	others := []int{ipip, ipv6in, gre, esp, sctp, experimental}
	for _, n := range []struct {
		network   string
		protocols []int
	}{
		{"ip4", append([]int{packet.ICMP, packet.ICMPv6, packet.TCP, packet.UDP}, others...)},
		{"ip6", append([]int{packet.ICMPv6, packet.ICMP, packet.TCP, packet.UDP}, others...)},
	} {
		for _, protocol := range n.protocols {
			var c *net.IPConn
			err := netns.Do(int(ns), func() (err error) {
				c, err = net.ListenIP(fmt.Sprintf("%s:%d", n.network, protocol), nil)
				return err
			})
			if err != nil {
				return err
			}
			sums := protocol == packet.ICMPv6 && n.network == "ip6"
			t.closers, t.sockets = append(t.closers, c), append(t.sockets, socket{c, sums || where == onHost})
			_ = c.SetReadBuffer(buffer) // as much as there is
			icmp := sums || protocol == packet.ICMP && n.network == "ip4"
			t.group.Go(func() {
				read(func(b []byte) (int, error) {
					n, _, err := c.ReadFromIP(b)
					return n, err
				}, func(p []byte) {
					in := magic
					if icmp && len(p) > 0 && quotes(n.network == "ip6", p[0]) {
						in = forged
					}
					t.note(where, at, portOf(protocol, p), p, in)
				})
			})
		}
	}
	return nil
}

// read hears until what it reads is closed.
func read(from func([]byte) (int, error), heard func([]byte)) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from(buf)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, fs.ErrClosed) {
			return
		}
		if err == nil {
			heard(buf[:n])
		}
	}
}

// quotes says whether a type of ICMP is an error, which quotes what somebody has sent (RFC 1122, section 3.2.2; RFC
// 4443, section 2.1).
func quotes(v6 bool, kind byte) bool {
	if v6 {
		return kind < 128
	}
	return kind == 3 || kind == 4 || kind == 5 || kind == 11 || kind == 12
}

// destination is the port that a frame is for, 0 if it has none, or options before it.
func destination(frame []byte) uint16 {
	if len(frame) < 14+20 {
		return 0
	}
	p := frame[14:]
	switch header := int(p[0]&0xf) * 4; {
	case binary.BigEndian.Uint16(frame[12:]) == packet.TypeIPv4 && len(p) > header:
		return portOf(int(p[9]), p[header:])
	case binary.BigEndian.Uint16(frame[12:]) == packet.TypeIPv6 && len(p) > 40:
		return portOf(int(p[6]), p[40:])
	}
	return 0
}

// portOf is the port that a datagram or segment is for, 0 if it is of another protocol.
func portOf(protocol int, p []byte) uint16 {
	if protocol != packet.UDP && protocol != packet.TCP || len(p) < 4 {
		return 0
	}
	return binary.BigEndian.Uint16(p[2:])
}

// isError says whether a frame holds an error of ICMP.
func isError(frame []byte) bool {
	if len(frame) < 14+20 {
		return false
	}
	p := frame[14:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case packet.TypeIPv4:
		header := int(p[0]&0xf) * 4
		return p[9] == packet.ICMP && len(p) > header && quotes(false, p[header])
	case packet.TypeIPv6:
		return len(p) > 40 && p[6] == packet.ICMPv6 && quotes(true, p[40])
	}
	return false
}

// told notes who says that they have an address: answers of ARP, and advertisements of neighbours.
func (t *taps) told(at int, frame []byte) {
	if len(frame) < 14+28 {
		return
	}
	p := frame[14:]
	var of netip.Addr
	var mac net.HardwareAddr
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == packet.TypeARP && binary.BigEndian.Uint16(p[6:]) == packet.Reply:
		of, mac = netip.AddrFrom4([4]byte(p[14:18])), net.HardwareAddr(p[8:14])
	case kind == packet.TypeIPv6 && len(p) >= 40+24 && p[6] == packet.ICMPv6 && p[40] == 136:
		of, mac = netip.AddrFrom16([16]byte(p[48:64])), net.HardwareAddr(frame[6:12])
		if options := p[64:]; len(options) >= 8 && options[0] == 2 { // target link-layer address
			mac = net.HardwareAddr(options[2:8])
		}
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[answer{at, of}] = append(t.answers[answer{at, of}], mac.String())
}
