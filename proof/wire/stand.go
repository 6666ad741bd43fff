package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/ethtool"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/busy"
)

const (
	// settle is how long packets that were sent are waited for.
	settle = 150 * time.Millisecond
	// patience is how long a packet that must arrive may take: a program may ask for a neighbour before.
	patience = 2 * time.Second
	// recovery is how long packets may be kept from passing by what was done: programs try again after some seconds.
	recovery = 20 * time.Second
	// size is the payload of most packets, in bytes: more than those that hosts send each other by themselves.
	size = 256
	// marked is the length of what no other packet has by chance.
	marked = 16
)

// A stand is a lab whose underlay is a relay.
type stand struct {
	Target
	relay        *relay
	source, sink end
	restore      []func() error
	open         []*os.File

	magic [marked]byte
	taken uint32 // the last number of a payload
	v6    bool
	in    *inbox
	out   *net.UDPConn
	to    netip.AddrPort
	shape shape
	dead  bool   // since an attack before, no packet of the pair passes
	twice int    // how many attacks of the family were made twice
	asked int    // how many messages followed from [stand.renew]
	left  string // what of the attack that is made is not tried, and why

	hung <-chan struct{} // closed when an attack has ended that took too long; nil if none has
}

// An end is one of the pair that is attacked.
type end struct {
	proof.Container
	host int
	ns   *os.File
}

// A shape is what packets of a family look like.
type shape struct {
	length int      // of the frame on the underlay that holds a packet of [size]
	at     int      // where the payload can be read in that, 0 if it cannot
	forms  [][]byte // the same packet as frames, below each layer of the receiving host
}

// Run makes the attacks on a lab, one after another, and returns what came of each in each family. If one fails, or
// takes longer than its limit, those after it are not made: an outcome says so of each of them
// ([attack.Outcome.Failed]). The error is [attack.ErrForeign], [errors.ErrUnsupported], that of the context, or says
// that the lab could not be left as it was; outcomes are returned with it.
func Run(ctx context.Context, lab Target, attacks []attack.Attack) (out Outcomes, err error) {
	s := &stand{Target: lab}
	_, _ = rand.Read(s.magic[:]) // it never fails
	if !s.pair() {
		return none(attacks, ErrNoWire.Error()), nil
	}
	defer func() { err = errors.Join(err, s.ended(s.close)) }()
	out.NotTried = map[attack.Attack]string{}
	failed := s.begin()
	if failed == nil {
		switch len(s.relay.bridges) {
		case 0:
			return none(attacks, "no bridge joins the hosts, so nobody can be put between them"), nil
		case 1:
		default:
			return none(attacks, "the hosts are joined by more than one bridge"), nil
		}
	}
	for _, v6 := range []bool{false, true} {
		if failed == nil {
			failed = s.family(ctx, v6, attacks, &out)
		}
	}
	if failed != nil {
		if ctx.Err() != nil || errors.Is(failed, attack.ErrForeign) || errors.Is(failed, errors.ErrUnsupported) {
			return out, failed
		}
		out.failed(s.Families, attacks, failed)
	}
	slices.SortStableFunc(out.List, func(a, b attack.Outcome) int {
		return slices.Index(All(), a.Attack) - slices.Index(All(), b.Attack)
	})
	return out, nil
}

// ended calls f, but if an attack hangs only when that has ended.
func (s *stand) ended(f func() error) error {
	if s.hung == nil {
		return f()
	}
	go func() {
		<-s.hung
		_ = f() // nobody waits for it any more
	}()
	return nil
}

// family makes the attacks with packets of a family.
func (s *stand) family(ctx context.Context, v6 bool, attacks []attack.Attack, out *Outcomes) (err error) {
	name := map[bool]string{false: "ipv4", true: "ipv6"}[v6]
	if !slices.Contains(s.Families, name) {
		return nil
	}
	if err := s.talk(v6); err != nil {
		return fmt.Errorf("wire, %s: %w", name, err)
	}
	closed := func() error { return errors.Join(s.out.Close(), s.in.close()) }
	defer func() {
		if s.hung == nil { // otherwise they are closed with the process
			err = errors.Join(err, closed())
		}
	}()
	learned := s.learn()
	for _, a := range All() {
		if !slices.Contains(attacks, a) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.Observe != nil {
			s.Observe(a, name)
		}
		if why := s.missing(a); why != "" {
			out.NotTried[a] = why
			continue
		}
		o := attack.Outcome{Attack: a, Family: name}
		if learned != nil {
			o.Missing = []string{learned.Error()}
		} else if o, err = s.limited(ctx, o); err != nil {
			err = fmt.Errorf("attack %q, %s: %w", a, name, err)
			o.Failed = err.Error()
			out.List = append(out.List, o)
			return err
		}
		if s.left != "" {
			out.NotTried[a], s.left = s.left, ""
		}
		out.List = append(out.List, o)
	}
	return nil
}

// grace is how long an attack may take to end after its limit.
const grace = recovery + patience

// limited makes an attack, for as long as it may take at most. If it does not end then, nothing may use the stand until
// hung is closed.
func (s *stand) limited(ctx context.Context, o attack.Outcome) (attack.Outcome, error) {
	limit := cmp.Or(s.Limit, attack.Longest)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it takes longer than %v", limit))
	defer cancel()
	s.relay.over = func() error { return context.Cause(ctx) }
	none := o
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.tried(ctx, o.Attack, &o)
	}()
	select {
	case <-ended:
		return o, err
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return o, cmp.Or(err, context.Cause(ctx))
	case <-time.After(grace):
		s.hung = ended
		return none, fmt.Errorf("%w, and does not end", context.Cause(ctx))
	}
}

// tried makes an attack. If packets that have to arrive did not, and nothing else did, it makes the attack once more,
// but only if other work may have lost them (see [busy.Watch]) or hosts have renewed their keys by themselves, and for
// as few attacks of a family as packets may be sent twice.
func (s *stand) tried(ctx context.Context, a attack.Attack, o *attack.Outcome) error {
	if s.dead = s.dead || !s.passes(); s.dead {
		missed(o, "an honest packet of the pair, before the attack")
		return nil
	}
	first, excused, messages := *o, busy.Watch(s.relay.unread), s.messages()
	if err := s.attack(ctx, a, o); err != nil || o.Arrived > 0 || len(o.Missing) == 0 {
		return err
	}
	renewed := a != Sniff && s.messages() > messages // what Sniff sends looks like messages, and it holds nothing back
	if s.twice == busy.Few(len(All())) || !renewed && !excused() || !s.passes() {
		return nil
	}
	s.twice++
	*o = first
	return s.attack(ctx, a, o)
}

// messages counts frames of hosts that may be messages of a key exchange nobody here has asked for: all but the pair's.
func (s *stand) messages() int { return s.relay.others(s.shape.length) - s.asked }

// missing says why an attack cannot be made.
func (s *stand) missing(a attack.Attack) string {
	switch {
	case a == Weaker && s.Guards == (Guards{}):
		return "it has no key exchange"
	case a == Weaker && len(s.Offers) == 0:
		return cmp.Or(s.Settled, "no offer of its key exchange is known that a stranger can make")
	case a == Hellos && len(s.Hellos) == 0 && s.Guards != (Guards{}): // one without guards is a control
		return "no first message of its key exchange is known that a stranger can make"
	}
	return ""
}

func (s *stand) attack(ctx context.Context, a attack.Attack, o *attack.Outcome) error {
	defer s.relay.intercept(nil)
	switch a {
	case Sniff:
		return s.sniff(ctx, o)
	case Patterns:
		return s.patterns(o)
	case Flip:
		return s.flip(o)
	case Cut:
		return s.cut(o)
	case Replay:
		return s.replay(ctx, o)
	case Reorder:
		return s.reorder(o)
	case Stranger:
		return s.stranger(o)
	case Peer:
		return s.peer(o)
	case Plain:
		return s.plain(o)
	case Hellos:
		return s.hello(o)
	case Silence:
		return s.silence(ctx, o)
	case Weaker:
		return s.weaker(o)
	}
	return nil
}

// pair chooses the first pair whose ends are on different hosts.
func (s *stand) pair() bool {
	find := func(name string) (e end) {
		for i, h := range s.Hosts {
			for _, c := range h.Containers {
				if c.Name == name {
					e = end{Container: c, host: i}
				}
			}
		}
		return e
	}
	for _, p := range s.Pairs {
		s.source, s.sink = find(p.Source), find(p.Sink)
		if s.source.host != s.sink.host {
			return true
		}
	}
	return false
}

// namespace opens one, which is not that of this process: links in it are changed.
func (s *stand) namespace(host int, name string) (*os.File, error) {
	f, err := s.Open(host, name)
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, f)
	if err := attack.Foreign(f); err != nil {
		return nil, err
	}
	return f, nil
}

// begin puts the relay between the hosts. Checksums are made by who sends: else they would be missing in what is
// captured.
func (s *stand) begin() (err error) {
	for _, e := range []*end{&s.source, &s.sink} {
		if e.ns, err = s.namespace(e.host, e.Namespace); err != nil {
			return err
		}
		if err := s.sums(e.ns, func(l link.Surveyed) bool { return l.Name == e.Inner }); err != nil {
			return err
		}
	}
	under, err := s.namespace(len(s.Hosts), "")
	if err != nil {
		return err
	}
	if s.relay, err = newRelay(under); err != nil {
		return err
	}
	for i := range s.Hosts {
		ns, err := s.namespace(i, "")
		if err != nil {
			return err
		}
		if err := s.sums(ns, func(l link.Surveyed) bool {
			return slices.ContainsFunc(s.relay.ports, func(p *port) bool {
				return l.Other == p.link.Index && p.link.Other == l.Index
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

// sums has links make checksums by themselves until the attacks are over.
func (s *stand) sums(ns *os.File, of func(link.Surveyed) bool) error {
	return within(ns, func(h *link.Handle) error {
		found, err := h.Survey()
		if err != nil {
			return err
		}
		for _, l := range found.Links {
			if !of(l) {
				continue
			}
			before := map[ethtool.Offload]bool{}
			for _, o := range []ethtool.Offload{ethtool.TX, ethtool.SG, ethtool.TSO, ethtool.GSO} {
				if on, err := ethtool.Get(l.Name, o); err == nil && on {
					before[o] = true
				}
			}
			if err := ethtool.Set(l.Name, ethtool.TX, false); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return err
			}
			s.restore = append(s.restore, func() error {
				return netns.Do(int(ns.Fd()), func() error { return offloads(l.Name, before) })
			})
		}
		return nil
	})
}

// offloads switches on those that a link has had.
func offloads(name string, before map[ethtool.Offload]bool) error {
	for _, o := range []ethtool.Offload{ethtool.TX, ethtool.SG, ethtool.TSO, ethtool.GSO} { // each needs those before it
		on, err := ethtool.Get(name, o)
		if err != nil || on || !before[o] {
			continue
		}
		if err := ethtool.Set(name, o, true); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

func (s *stand) close() error {
	var errs []error
	if s.relay != nil {
		errs = append(errs, s.relay.close())
	}
	for _, f := range slices.Backward(s.restore) {
		errs = append(errs, f())
	}
	for _, f := range s.open {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// talk opens the sockets of both ends. Datagrams of IPv4 have no checksum: whatever arrives of them is delivered.
func (s *stand) talk(v6 bool) error {
	s.v6 = v6
	listen := func(e end) (c *net.UDPConn, err error) {
		err = netns.Do(int(e.ns.Fd()), func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.Own(v6), e.First)))
			return err
		})
		return c, err
	}
	in, err := listen(s.sink)
	if err != nil {
		return err
	}
	s.in = newInbox(in, s.magic[:])
	if s.out, err = listen(s.source); err != nil {
		return errors.Join(err, s.in.close())
	}
	s.to = netip.AddrPortFrom(s.sink.Public(v6), s.sink.First)
	if !v6 {
		return errors.Join(sock.Unsummed(s.out), sock.Unsummed(in))
	}
	return nil
}

// filler is what payloads are filled with: each two words are each other's complement, so that the same bit of both can
// be flipped and the sum of all stays.
const filler = 0x5555aaaa

// head begins a payload: the mark, its number and its length, and a checksum of these.
func head(magic []byte, number uint32, length int) []byte {
	p := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(bytes.Clone(magic), number), uint32(length))
	return binary.BigEndian.AppendUint32(p, crc32.ChecksumIEEE(p))
}

// payload makes one with a number of its own, whose length is a multiple of four bytes.
func (s *stand) payload(length int) (number uint32, p []byte) {
	s.taken++
	for p = head(s.magic[:], s.taken, length); len(p) < length; {
		p = binary.BigEndian.AppendUint32(p, filler)
	}
	return s.taken, p
}

// seen says whether a frame holds something of a payload that can be read.
func (s *stand) seen(frame []byte) bool {
	const enough = 6 // words: by chance, nothing encrypted has as many
	words := bytes.Repeat(binary.BigEndian.AppendUint32(nil, filler), enough)
	return bytes.Contains(frame, s.magic[:]) || bytes.Contains(frame, words)
}

// send sends payloads from source to sink.
func (s *stand) send(payloads ...[]byte) {
	for i, p := range payloads {
		for range 2 { // the first may report an error that came before
			if _, err := s.out.WriteToUDPAddrPort(p, s.to); err == nil {
				break // what cannot be sent does not arrive, and that is noticed
			}
		}
		if i%burst == burst-1 {
			time.Sleep(pause)
		}
	}
}

// passes sends payloads until one arrives as it was sent, as long as it may take to recover.
func (s *stand) passes() bool {
	for end := time.Now().Add(recovery); ; {
		number, p := s.payload(size)
		s.send(p)
		if s.in.arrives(number, settle) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// settle waits for frames that were handed on, and until a payload that is sent after them has arrived: on a busy
// machine they may take longer than that.
func (s *stand) settle(o *attack.Outcome) {
	time.Sleep(settle)
	if !s.passes() {
		missed(o, "a payload that was sent afterwards")
	}
}

// poll asks until something is so, for so long.
func poll(within time.Duration, is func() bool) bool {
	for end := time.Now().Add(within); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// catch sends payloads of [size] and keeps the frames that carry them from passing.
func (s *stand) catch(payloads ...[]byte) ([][]byte, error) {
	var got record
	s.relay.intercept(func(_ *port, frame []byte) bool {
		if len(frame) != s.shape.length || len(got.all()) == len(payloads) {
			return true
		}
		got.keep(frame)
		return false
	})
	defer s.relay.intercept(nil)
	for i, p := range payloads { // one after another: programs may join what comes at once
		s.send(p)
		poll(patience/4, func() bool { return len(got.all()) > i })
	}
	if frames := got.all(); len(frames) == len(payloads) {
		return frames, nil
	}
	return nil, errNotCaught
}

var errNotCaught = errors.New("a packet of the pair was not seen on the underlay")

// learn finds out what a packet of [size] looks like.
func (s *stand) learn() error {
	s.shape, s.dead, s.twice = shape{}, false, 0
	if !s.passes() {
		return errors.New("an honest packet of the pair")
	}
	var got record
	s.relay.intercept(func(_ *port, frame []byte) bool {
		if len(frame) >= size {
			got.keep(frame)
		}
		return true
	})
	defer s.relay.intercept(nil)
	forms, err := s.below()
	if err != nil {
		return err
	}
	counts := map[int]int{}
	for _, f := range got.all() {
		if counts[len(f)]++; counts[len(f)] > counts[s.shape.length] {
			s.shape.length = len(f)
		}
	}
	if s.shape.length == 0 {
		return errNotCaught
	}
	for _, f := range got.all() {
		if at := bytes.Index(f, s.magic[:]); at > 0 && len(f) == s.shape.length && readable(f, at, s.v6) {
			s.shape.at = at
			forms = append(forms, f[:ethernet:ethernet]) // the packet alone, if nothing else shows it
			forms[len(forms)-1] = framed(f, f[inner(at, s.v6):at+size])
		}
		for i := range forms {
			copy(forms[i], f[:12])
		}
	}
	slices.SortFunc(forms, bytes.Compare)
	s.shape.forms = slices.CompactFunc(forms, func(a, b []byte) bool { return len(a) == len(b) })
	return nil
}

// below sends some packets, and returns one as each link of the receiving host gets it: decrypted, and without a
// tunnel.
func (s *stand) below() (forms [][]byte, err error) {
	t, err := s.tap()
	if err != nil {
		return nil, err
	}
	const packets = 3
	for range packets {
		number, p := s.payload(size)
		s.send(p)
		s.in.arrives(number, patience)
	}
	return t.close(func(l link.Surveyed, f []byte) []byte {
		if len(l.MAC) != 6 { // a link without frames: tunnels have the address of the host as theirs
			if len(f) < header4 || f[0]>>4 != 4 && f[0]>>4 != 6 {
				return nil
			}
			f = framed(make([]byte, ethernet), f)
		}
		at := bytes.Index(f, s.magic[:])
		if at < 0 || !readable(f, at, s.v6) {
			return nil
		}
		return bytes.Clone(f)
	}), nil
}

// An inbox counts what is delivered to the sink.
type inbox struct {
	socket *net.UDPConn
	magic  []byte
	group  sync.WaitGroup

	mu     sync.Mutex
	intact map[uint32]int // by number
	other  [][]byte       // payloads that nobody has sent
	last   netip.AddrPort // who has sent the last one
}

func newInbox(c *net.UDPConn, magic []byte) *inbox {
	in := &inbox{socket: c, magic: magic, intact: map[uint32]int{}}
	const room = 8 << 20
	_ = c.SetReadBuffer(room) // as much as there is
	in.group.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				in.note(buf[:n], from)
			}
		}
	})
	return in
}

func (in *inbox) close() error {
	err := in.socket.Close()
	in.group.Wait()
	return err
}

// note judges a payload: one of [stand.payload] follows from its number and length.
func (in *inbox) note(p []byte, from netip.AddrPort) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = from
	const begin = marked + 3*4
	whole := len(p) >= begin && len(p)%4 == 0 &&
		bytes.Equal(p[:begin], head(in.magic, binary.BigEndian.Uint32(p[marked:]), len(p)))
	for i := begin; whole && i < len(p); i += 4 {
		whole = binary.BigEndian.Uint32(p[i:]) == filler
	}
	if !whole {
		in.other = append(in.other, bytes.Clone(p))
		return
	}
	in.intact[binary.BigEndian.Uint32(p[marked:])]++
}

// count is how often a payload was delivered.
func (in *inbox) count(number uint32) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.intact[number]
}

// arrives waits for a payload.
func (in *inbox) arrives(number uint32, within time.Duration) bool {
	return poll(within, func() bool { return in.count(number) > 0 })
}

// made counts payloads that nobody has sent.
func (in *inbox) made() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.other)
}

// sender is who has sent the last one.
func (in *inbox) sender() netip.AddrPort {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.last
}
