package proof

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/busy"
	"github.com/nettoll/nettoll/proof/packet"
)

// A Survey is how [Reach] tries who reaches whom.
type Survey struct {
	// Open opens a network namespace of a host, counted from 0, by its name; "" is the host's own. The file is the
	// caller's to close.
	Open func(host int, namespace string) (*os.File, error)
	// Budget is how long it may take. The ways between pairs are tried however long that takes; 0: everything is.
	Budget time.Duration
	// Seed and Turn choose what is tried where there is not time for all. Turns count from 0.
	Seed uint64
	Turn int
}

const (
	// quiet is for how long nothing may arrive until no more is waited for, lastly how long that is waited for at most.
	quiet, lastly = 20 * time.Millisecond, 120 * time.Millisecond
	// agreed is how long hosts may take to agree on keys when the first packet is sent.
	agreed = 2 * time.Second
	// greeting is the number of the first packet that is no probe.
	greeting = 1 << 30
	// glance is how often it is looked for what has arrived.
	glance = 500 * time.Microsecond
	// together is how many packets are sent until it is looked for what has arrived: sockets have room for more, also
	// those of who may not ask for much.
	together = 128
	// worded is how many differences are said in words.
	worded = 12
)

// ErrShared says that the containers of a lab share the namespace of their host: nobody stands between them, and there
// is nothing to try.
var ErrShared = errors.New("containers share the namespace of their host, so nothing separates them")

// Reach tries who reaches whom in a lab, with packets of its own that are counted where they arrive: at sockets of
// containers and hosts, behind every filter on their way. It takes nothing that a workload uses: ports of proofs, ports
// that nobody has, and no flow that exists. What could not be tried is said in the matrix.
func Reach(ctx context.Context, l Lab, how Survey) measure.Matrix {
	began := time.Now()
	r := &reaching{matrix: newMatrix(l, how.Turn, how.Budget == 0), Survey: how, began: began}
	out := measure.Matrix{Filtered: l.Filtered}
	err := r.open()
	if err == nil {
		err = r.try(ctx)
	}
	r.close()
	if err != nil {
		out.NotTried = err.Error()
	} else {
		r.sum(&out)
	}
	out.Took = time.Since(began).Seconds()
	return out
}

// reaching is a matrix that is being tried.
type reaching struct {
	*matrix
	Survey
	began   time.Time
	sockets []sock.Socket
	send    []senders // by container
	ears    []ear
	magic   [8]byte
	sent    []probe
	came    map[int][]int // by the number of a probe: at whom it arrived
	greeted map[int]bool  // greetings that arrived
	untold  map[int]bool  // probes that could not be sent
	unsent  map[int]bool  // those that the rights of their container refused
	why     error         // of the first of them
	of      map[string]int
	last    time.Time // when something was sent or arrived
	waiting int       // packets sent since it was looked for what arrived
	buf     []byte
}

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
func (r *reaching) open() error {
	for _, c := range r.containers {
		if c.Namespace == "" {
			return ErrShared
		}
	}
	_, _ = rand.Read(r.magic[:]) // it never fails (crypto/rand)
	r.came, r.untold, r.unsent = map[int][]int{}, map[int]bool{}, map[int]bool{}
	r.of, r.buf = map[string]int{}, make([]byte, 1<<16)
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
		r.send = append(r.send, of)
	}
	for i, h := range r.hosts {
		if err := r.enter(h, "", func() (err error) {
			h.remember()
			if h.addresses, err = own(); err != nil {
				return err
			}
			return r.listen(len(r.containers) + i)
		}); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return nil
}

// sender opens the sockets that a container sends by, with its rights.
func (r *reaching) sender(c *member) (s senders, err error) {
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
func (r *reaching) outlets(c *member, open func(v6 bool, link string) (sock.Socket, error)) (w outlets, err error) {
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
func (r *reaching) enter(m *member, namespace string, f func() error) error {
	file, err := r.Open(m.host, namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	return netns.Do(int(file.Fd()), f)
}

func (r *reaching) listen(at int) error {
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
func (r *reaching) opened(s sock.Socket, err error) (sock.Socket, error) {
	if err == nil {
		r.sockets = append(r.sockets, s)
	}
	return s, err
}

func (r *reaching) close() {
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

// try sends the tries, and waits until nothing arrives any more.
func (r *reaching) try(ctx context.Context) error {
	ways, must := r.ways(r.Seed)
	if len(ways) == 0 {
		return errors.New("the lab has one container, so there is nobody to reach")
	}
	r.greet(ways)
	excused := busy.Watch()
	limit := r.Budget - quiet - r.Patience.Trip // what waits afterwards
	for i, w := range ways {
		if i >= must && !r.complete && time.Since(r.began) > limit {
			r.count(ways[i:])
			break
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		for _, v6 := range []bool{false, true} {
			list, all := r.probes(w, v6)
			r.of[family(v6)] += all
			for _, p := range list {
				r.sent = append(r.sent, p)
				r.shoot(len(r.sent) - 1)
			}
		}
	}
	if err := r.settle(nil); err != nil {
		return err
	}
	// what must arrive is sent once more only if packets get lost on the way, or other work is to blame
	for range busy.Again {
		missing := r.missing()
		if len(missing) == 0 || !r.Patience.Lossy && !excused() {
			break
		}
		for _, n := range missing {
			r.shoot(n)
		}
		if err := r.settle(missing); err != nil {
			return err
		}
	}
	return nil
}

// greet sends a packet between each two hosts, in one direction only, and waits until it has arrived. An encryption may
// agree on keys when the first packet is sent. If both ends begin at the same time, neither agreement may succeed:
// WireGuard tries again after 5 s.
func (r *reaching) greet(ways []way) {
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
			if r.fire(n, list[i]) == nil && list[i].expect == due {
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

// count counts the tries that are left out.
func (r *reaching) count(ways []way) {
	for _, w := range ways {
		for _, v6 := range []bool{false, true} {
			r.of[family(v6)] += r.size(w, v6)
		}
	}
}

func family(v6 bool) string {
	if v6 {
		return "ipv6"
	}
	return "ipv4"
}

// shoot sends a probe.
func (r *reaching) shoot(n int) {
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

// fire sends a packet with a number.
func (r *reaching) fire(n int, p probe) error {
	key := binary.BigEndian.AppendUint32(slices.Clone(r.magic[:]), uint32(n))
	by, port, what := r.send[p.from].packets, uint16(0), p.packet // of a packet the kernel wants no port
	if of := r.send[p.from]; of.confined {
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
	_, err := one.SendPacket(netip.AddrPortFrom(p.target.Addr(), port), what(key))
	return err
}

// missing are the numbers of those that must arrive and did not.
func (r *reaching) missing() (list []int) {
	for n, p := range r.sent {
		if p.expect == due && !r.unsent[n] && !slices.Contains(r.came[n], p.to) {
			list = append(list, n)
		}
	}
	return list
}

// settle waits until switches have looked at what was sent, until nothing has arrived for a while and, if some probes
// are given, until those have.
func (r *reaching) settle(until []int) error {
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
func (r *reaching) queued() (sum uint64) {
	for _, h := range r.hosts {
		_ = r.enter(h, "", func() error {
			n, _, err := busy.Queues()
			sum += n
			return err
		})
	}
	return sum
}

// hear notes what has arrived.
func (r *reaching) hear() {
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
				r.note(n, e.at)
			case ok && n > greeting:
				r.greeted[n] = true
			}
		}
	}
}

func (r *reaching) note(n, at int) {
	if at != r.sent[n].from && !slices.Contains(r.came[n], at) { // what comes back to its sender is an answer
		r.came[n] = append(r.came[n], at)
		r.last = time.Now()
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
	i := bytes.Index(p, magic)
	if i < 0 || len(p) < i+len(magic)+4 {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(p[i+len(magic):])), true
}

// sum writes what came of the tries.
func (r *reaching) sum(out *measure.Matrix) {
	out.To = r.names()
	out.From = out.To[:len(r.containers):len(r.containers)]
	out.Tried, out.Of, out.Arrived = map[string]int{}, r.of, map[string]int{}
	cells := map[string][][]byte{}
	for _, v6 := range []bool{false, true} {
		for range out.From {
			cells[family(v6)] = append(cells[family(v6)], bytes.Repeat([]byte{byte(measure.ReachNotTried)}, len(out.To)))
		}
	}
	for n, p := range r.sent {
		out.Tried[family(p.ipv6)]++
		if len(r.came[n]) > 0 {
			out.Arrived[p.kind.name()]++
		}
		reach, leaks := r.judge(p, r.came[n])
		switch {
		case r.unsent[n]:
			reach = measure.ReachUnsent
			if out.Unsent == nil {
				out.Unsent = map[string]int{}
			}
			out.Unsent[family(p.ipv6)]++
			if what := p.what(); !slices.Contains(out.UnsentKinds, what) {
				out.UnsentKinds = append(out.UnsentKinds, what)
			}
		case reach == measure.ReachLeak:
			out.LeaksAll++
			out.Leaks = append(out.Leaks, leaks[:min(len(leaks), worded-len(out.Leaks))]...)
		case r.untold[n], reach == measure.ReachMissing && r.Patience.Lossy:
			reach = measure.ReachUntold
		case reach == measure.ReachMissing:
			out.MissingAll++
			if len(out.Missing) < worded {
				out.Missing = append(out.Missing, r.text(p)+" is on the list and does not arrive")
			}
		}
		cell := &cells[family(p.ipv6)][p.from][p.to]
		*cell = byte(measure.Reach(*cell).Worse(reach))
	}
	maps.DeleteFunc(out.Of, func(_ string, n int) bool { return n == 0 })
	out.Cells = map[string][]string{}
	for f, rows := range cells {
		if out.Tried[f] == 0 {
			continue
		}
		for _, row := range rows {
			out.Cells[f] = append(out.Cells[f], string(row))
		}
	}
	if len(r.untold) > 0 {
		out.Untold = fmt.Sprintf("%d packets were not sent, the first one because: %v", len(r.untold), r.why)
	}
}
