package proof

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/busy"
	"github.com/nettoll/nettoll/proof/packet"
)

// entered are the ends if this process can enter the namespaces of hosts: all members hear at raw sockets, behind every
// filter on the way.
type entered struct {
	*reaching
	sockets []sock.Socket
	senders []senders // by container
	ears    []ear
	greeted map[int]bool // greetings that arrived
	lost    func() bool
	last    time.Time // when something was sent or arrived
	waiting int       // packets sent since it was looked for what arrived
	buf     []byte
}

const (
	// agreed is how long hosts may take to agree on keys when the first packet is sent.
	agreed = 2 * time.Second
	// greeting is the number of the first packet that is no probe.
	greeting = 1 << 30
)

// senders send from a container: packets of any kind, or, if its rights refuse those, what any program may send.
type senders struct {
	confined       bool
	packets        outlets
	datagrams, ask outlets // ask: echo requests
	asks           bool    // it may send those
}

// outlets are the sockets of a container, by family: what goes where its routes say, and what is for all on its link.
type outlets struct{ routed, linked [2]sock.Socket }

// errUnsent says that the rights of a container refuse to send a packet.
var errUnsent = errors.New("the rights of the container refuse to send it")

// An ear hears packets of a protocol at a member.
type ear struct {
	sock.Socket
	at       int
	ipv6     bool
	protocol int
}

// open opens the sockets of all members.
func (r *entered) open(context.Context) error {
	r.buf = make([]byte, 1<<16)
	for i, c := range r.containers {
		if err := r.enter(c, c.Namespace, func() error {
			c.remember()
			c.addresses = broadcasts(c.Inner)
			return r.listen(i)
		}); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		of, err := r.sender(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		r.senders = append(r.senders, of)
	}
	for i, h := range r.hosts {
		if err := r.enter(h, h.Namespace, func() (err error) {
			h.remember()
			if h.addresses, err = own(); err != nil {
				return err
			}
			return r.listen(len(r.containers) + i)
		}); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	r.lost = busy.Watch()
	return nil
}

// together is one: it costs nothing to look at the clock after each way.
func (r *entered) together([]way) int { return 1 }

func (r *entered) after() time.Duration { return quiet + r.Patience.Trip }

func (r *entered) excused() bool { return r.lost() }

// inLine is false: nettoll has made what is between containers, which judges each packet when it comes.
func (r *entered) inLine() bool { return false }

func (r *entered) await(context.Context, []int) error { return nil }

func (r *entered) send(_ context.Context, numbers []int) error {
	for _, n := range numbers {
		r.shoot(n)
	}
	return nil
}

// sender opens the sockets that a container sends by, with its rights.
func (r *entered) sender(c *member) (s senders, err error) {
	file, err := r.Open(c.host, c.Namespace)
	if err != nil {
		return s, err
	}
	defer file.Close()
	err = c.Within(file, func() (err error) {
		s.packets, err = r.outlets(c, sock.Packets)
		if c.Capabilities == nil || !errors.Is(err, os.ErrPermission) {
			return err
		}
		s.confined = true
		if s.datagrams, err = r.outlets(c, func(v6 bool, link string) (sock.Socket, error) {
			return sock.Plain(packet.UDP, netip.AddrPortFrom(c.Own(v6), c.First), link)
		}); err != nil {
			return err
		}
		s.ask, err = r.outlets(c, func(v6 bool, link string) (sock.Socket, error) {
			return sock.Plain(int(packet.ICMPOf(c.Own(v6))), netip.AddrPortFrom(c.Own(v6), 0), link)
		})
		if s.asks = err == nil; errors.Is(err, os.ErrPermission) {
			return nil
		}
		return err
	})
	return s, err
}

// outlets opens the sockets of the families that a container has.
func (r *entered) outlets(c *member, open func(v6 bool, link string) (sock.Socket, error)) (w outlets, err error) {
	for n, v6 := range []bool{false, true} {
		if !c.Own(v6).IsValid() {
			continue
		}
		if w.routed[n], err = r.opened(open(v6, "")); err != nil {
			return w, err
		}
		if w.linked[n], err = r.opened(open(v6, c.Inner)); err != nil {
			return w, err
		}
	}
	return w, nil
}

// enter calls f in a namespace of a member's host.
func (r *entered) enter(m *member, namespace string, f func() error) error {
	file, err := r.Open(m.host, namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	return netns.Do(int(file.Fd()), f)
}

func (r *entered) listen(at int) error {
	for _, v6 := range []bool{false, true} {
		icmp := packet.ICMP
		if v6 {
			icmp = packet.ICMPv6
		}
		for _, protocol := range []int{icmp, packet.TCP, packet.UDP} {
			s, err := r.opened(sock.Hear(v6, protocol))
			if err != nil {
				return err
			}
			r.ears = append(r.ears, ear{s, at, v6, protocol})
		}
	}
	return nil
}

// opened notes a socket, which is closed at the end.
func (r *entered) opened(s sock.Socket, err error) (sock.Socket, error) {
	if err == nil {
		r.sockets = append(r.sockets, s)
	}
	return s, err
}

func (r *entered) close(context.Context) {
	for _, s := range r.sockets {
		s.Close()
	}
	for _, m := range slices.Concat(r.containers, r.hosts) {
		if m.remembers {
			_ = r.enter(m, m.Namespace, m.forget)
		}
	}
}

// own are the addresses of the calling thread's namespace, those of link scope among them, but not of loopback.
func own() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var list, local []netip.Addr
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || p.Addr().IsLoopback():
		case p.Addr().IsLinkLocalUnicast():
			local = append(local, p.Addr())
		default:
			list = append(list, p.Addr())
		}
	}
	for _, l := range [][]netip.Addr{list, local} {
		slices.SortFunc(l, netip.Addr.Compare)
	}
	return slices.Compact(append(list, local...)), nil
}

// broadcasts are the addresses of IPv4 that all have who are in the ranges of a link of the calling thread's namespace.
func broadcasts(link string) (list []netip.Addr) {
	i, err := net.InterfaceByName(link)
	if err != nil {
		return nil
	}
	found, err := i.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Bits() > 30 { // RFC 3021: two hosts have no such address
			continue
		}
		b := p.Masked().Addr().As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|(1<<(32-p.Bits())-1))
		list = append(list, netip.AddrFrom4(b))
	}
	return list
}

// greet sends a packet between each two hosts, in one direction only, and waits until it has arrived. An encryption may
// agree on keys when the first packet is sent. If both ends begin at the same time, neither agreement may succeed:
// WireGuard tries again after 5 s.
func (r *entered) greet(ways []way, mark []byte) {
	r.greeted = map[int]bool{}
	known := map[[2]int]bool{}
	var must []int
	for _, w := range ways {
		if w.to >= len(r.containers) {
			continue
		}
		from, to := r.containers[w.from].host, r.containers[w.to].host
		if from == to || known[[2]int{from, to}] {
			continue
		}
		known[[2]int{from, to}], known[[2]int{to, from}] = true, true
		for _, v6 := range []bool{false, true} {
			list, _ := r.probes(w, v6)
			i := slices.IndexFunc(list, func(p probe) bool { return p.kind == datagram })
			if i < 0 {
				continue
			}
			n := greeting + len(known)
			if r.fire(n, list[i], mark...) == nil && list[i].expect == due {
				must = append(must, n)
			}
			break
		}
	}
	if len(known) == 0 {
		return
	}
	began := time.Now()
	for ; time.Since(began) < agreed+4*r.Patience.Trip; time.Sleep(glance) {
		r.hear()
		missing := slices.ContainsFunc(must, func(n int) bool { return !r.greeted[n] })
		if !missing && (2*len(r.greeted) == len(known) || time.Since(began) > quiet+4*r.Patience.Trip) {
			return
		}
	}
}

// shoot sends a probe.
func (r *entered) shoot(n int) {
	p := r.sent[n]
	if err := r.fire(n, p); errors.Is(err, errUnsent) {
		r.unsent[n] = true
		return
	} else if err != nil {
		r.untold[n] = true
		if r.why == nil {
			r.why = fmt.Errorf("%s: %w", r.text(p), err)
		}
	} else {
		delete(r.untold, n)
	}
	r.last = time.Now()
	if r.waiting++; r.waiting >= together {
		r.hear()
	}
}

// fire sends a packet with a number, and perhaps more.
func (r *entered) fire(n int, p probe, more ...byte) error {
	by, port, what := r.senders[p.from].packets, uint16(0), p.packet // of a packet the kernel wants no port
	if of := r.senders[p.from]; of.confined {
		switch {
		case p.kind == datagram && p.target.Port() != 0:
			by, port, what = of.datagrams, p.target.Port(), slices.Clone[[]byte]
		case p.kind == echo && of.asks:
			by, what = of.ask, p.request
		default:
			return errUnsent
		}
	}
	with := by.routed
	if a := p.target.Addr(); a.IsMulticast() || a.IsLinkLocalUnicast() || p.to >= len(r.containers)+len(r.hosts) {
		with = by.linked
	}
	one := with[0]
	if p.ipv6 {
		one = with[1]
	}
	_, err := one.SendPacket(netip.AddrPortFrom(p.target.Addr(), port), what(append(key(r.magic[:], n), more...)))
	return err
}

// settle waits until switches have looked at what was sent, until nothing has arrived for a while and, if some probes
// are given, until those have.
func (r *entered) settle(_ context.Context, until []int) error {
	if err := busy.Drain(r.queued, r.hear); err != nil {
		return err
	}
	for end := time.Now().Add(lastly + r.Patience.Trip); time.Now().Before(end); time.Sleep(glance) {
		r.hear()
		if until == nil && time.Since(r.last) > quiet+r.Patience.Trip {
			return nil
		}
		if until != nil && !slices.ContainsFunc(until, func(n int) bool {
			return !slices.Contains(r.came[n], r.sent[n].to)
		}) {
			return nil
		}
	}
	r.hear()
	return nil
}

// queued is how many bytes of packets wait in the queues of the hosts' switches (see [busy.Queues]); 0 if the kernel
// does not say.
func (r *entered) queued() (sum uint64) {
	for _, h := range r.hosts {
		_ = r.enter(h, h.Namespace, func() error {
			n, _, err := busy.Queues()
			sum += n
			return err
		})
	}
	return sum
}

// hear notes what has arrived.
func (r *entered) hear() {
	r.waiting = 0
	for _, e := range r.ears {
		for {
			size, errno := e.Recv(&r.buf[0], len(r.buf), sock.DontWait)
			if errno == sock.Interrupted {
				continue
			}
			if errno != 0 {
				break
			}
			switch n, ok := e.number(r.buf[:size], r.magic[:]); {
			case ok && n < len(r.sent):
				if r.note(n, e.at) {
					r.last = time.Now()
				}
			case ok && n > greeting:
				r.greeted[n] = true
			}
		}
	}
}

// number is that of the probe in a packet.
func (e ear) number(p, magic []byte) (int, bool) {
	if !e.ipv6 { // raw sockets of IPv4 hand over the header, those of IPv6 do not (raw(7))
		if len(p) < 20 || len(p) <= int(p[0]&0xf)*4 {
			return 0, false
		}
		p = p[int(p[0]&0xf)*4:]
	}
	switch {
	case len(p) == 0:
		return 0, false
	case e.protocol == packet.ICMP && p[0] != echoRequest, e.protocol == packet.ICMPv6 && p[0] != echoRequest6:
		return 0, false // an answer, or an error that quotes what somebody has sent
	}
	return marked(p, magic)
}

// key is what a probe holds: the mark of its matrix and its number.
func key(mark []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(slices.Clone(mark), uint32(n))
}

// marked is the number of the probe in a packet.
func marked(p, mark []byte) (int, bool) {
	i := bytes.Index(p, mark)
	if i < 0 || len(p) < i+len(mark)+4 {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(p[i+len(mark):])), true
}
