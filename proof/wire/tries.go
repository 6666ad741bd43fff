package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/packet"
	"github.com/nettoll/nettoll/proof/threat"
)

// most is how many holes are said in words.
const most = 12

// hole notes something that came through, in words.
func hole(o *attack.Outcome, format string, args ...any) {
	o.Arrived++
	said := fmt.Sprintf(format, args...)
	if len(o.Holes) < most && !slices.Contains(o.Holes, said) {
		o.Holes = append(o.Holes, said)
	}
}

// missed notes that something which is allowed did not arrive.
func missed(o *attack.Outcome, what string) { o.Missing = append(o.Missing, what) }

// sizes are lengths of payloads: small ones, and as much as a packet takes.
func (s *stand) sizes() []int {
	header := header4 + udp
	if s.v6 {
		header = header6 + udp
	}
	return []int{64, size, size, (s.MTU - header) / 4 * 4}
}

// sniff looks for what containers send in every frame between hosts.
func (s *stand) sniff(ctx context.Context, o *attack.Outcome) error {
	var got record
	s.relay.intercept(func(_ *port, frame []byte) bool {
		got.keep(frame)
		return true
	})
	for _, length := range s.sizes() {
		number, p := s.payload(length)
		s.send(p)
		if !s.in.arrives(number, patience) {
			missed(o, fmt.Sprintf("a datagram of %d bytes", length))
			continue
		}
		if err := s.back(o, length); err != nil {
			return err
		}
	}
	if s.Guards != (Guards{}) {
		if err := s.renewing(ctx); err != nil {
			s.left = "not tried while keys are renewed: " + brief(err)
		}
		if !s.passes() {
			missed(o, "a packet of the pair with new keys")
		}
	}
	s.relay.intercept(nil)
	s.read(o, got.all())
	return ctx.Err()
}

// renewing has all hosts renew their keys, and the pair send meanwhile: also the first packets under new keys.
func (s *stand) renewing(ctx context.Context) error {
	const apart = 5 * time.Millisecond
	renewed := make(chan error, 1)
	go func() { renewed <- s.renew(ctx) }()
	for {
		_, p := s.payload(size)
		s.send(p)
		select {
		case err := <-renewed:
			return err
		case <-time.After(apart):
		}
	}
}

// back sends a payload from sink to source.
func (s *stand) back(o *attack.Outcome, length int) error {
	number, p := s.payload(length)
	if _, err := s.in.socket.WriteToUDPAddrPort(p, s.in.sender()); err != nil {
		missed(o, fmt.Sprintf("an answer of %d bytes", length))
		return nil
	}
	if err := s.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for buf := make([]byte, 1<<16); ; {
		n, err := s.out.Read(buf)
		if err != nil {
			missed(o, fmt.Sprintf("an answer of %d bytes, number %d", length, number))
			return nil
		}
		if bytes.Equal(buf[:n], p) {
			return nil
		}
	}
}

// read counts frames that can carry something, and those in which it can be read.
func (s *stand) read(o *attack.Outcome, frames [][]byte) {
	for _, f := range frames {
		visible := s.seen(f)
		if visible || len(f) >= 64+ethernet+header4 {
			o.Sent++
		}
		if visible {
			hole(o, "what a container sent can be read in a frame of %d bytes from %s", len(f), net.HardwareAddr(f[6:12]))
		}
	}
}

// patterns sends the same packet twice, made of equal blocks, and compares the frames.
func (s *stand) patterns(o *attack.Outcome) error {
	const block = 16 // of AES in bytes (FIPS 197)
	_, p := s.payload(size)
	frames, err := s.catch(p, p)
	if err != nil {
		missed(o, err.Error())
		return nil
	}
	a, b := frames[0], frames[1]
	before := map[string]bool{}
	for i := 0; i+block <= len(a); i++ {
		before[string(a[i:i+block])] = true
	}
	inside := map[string]bool{}
	for i := len(b) - size; i+block <= len(b); i += block {
		one := string(b[i : i+block])
		o.Sent++
		switch {
		case before[one]:
			hole(o, "two packets with the same payload have the same bytes on the wire")
		case inside[one]:
			hole(o, "equal blocks of a payload are equal on the wire")
		}
		inside[one] = true
	}
	return nil
}

// changed hands on frames that were made of one that was caught, then that one, and counts payloads that nobody has
// sent. It returns how often the payload of that one was delivered before.
func (s *stand) changed(o *attack.Outcome, what string, of func(frame []byte) [][]byte) (intact int, err error) {
	number, p := s.payload(size)
	frames, err := s.catch(p)
	if err != nil {
		missed(o, err.Error())
		return 0, nil
	}
	before := s.in.made()
	for _, f := range of(frames[0]) {
		sent, err := s.relay.inject(f)
		if err != nil {
			return 0, err
		}
		if o.Sent += sent; o.Sent%burst == 0 {
			time.Sleep(pause)
		}
	}
	time.Sleep(settle)
	if intact = s.in.count(number); intact == 0 { // otherwise what was changed is looked at by nobody
		if _, err := s.relay.inject(frames[0]); err != nil {
			return 0, err
		}
		if !s.in.arrives(number, patience) {
			missed(o, "the frame that "+what+" was made of")
		}
	}
	for range s.in.made() - before {
		hole(o, "%s is delivered, and not with the payload that was sent", what)
	}
	return intact, nil
}

// flip changes single bits, and pairs of them that leave the sum of all words as it was: of the outer headers, whose
// bits are for the network, and of what they carry, which is not delivered then even as it was.
func (s *stand) flip(o *attack.Outcome) error {
	_, err := s.changed(o, "a frame with another bit in its outer headers", func(frame []byte) (list [][]byte) {
		for i := ethernet; i < headers(frame).body; i++ {
			for bit := range 8 {
				one := bytes.Clone(frame)
				one[i] ^= 1 << bit
				list = append(list, one)
			}
		}
		return list
	})
	if err != nil {
		return err
	}
	intact, err := s.changed(o, "a frame with other bits", func(frame []byte) (list [][]byte) {
		body := headers(frame).body
		for i := body; i < len(frame); i++ {
			if slices.Contains(s.Ignored, i-body) {
				continue
			}
			one := bytes.Clone(frame)
			one[i] ^= 1 << (i % 8)
			list = append(list, repair(one))
			if i+2 < len(frame) && !slices.Contains(s.Ignored, i+2-body) {
				two := bytes.Clone(one)
				two[i+2] ^= 1 << (i % 8)
				list = append(list, repair(two))
			}
		}
		return list
	})
	for range intact {
		hole(o, "a frame with other bits is delivered as it was")
	}
	return err
}

// cut makes frames shorter and longer, and sends the largest packet there is. Packets of the pair must pass afterwards.
func (s *stand) cut(o *attack.Outcome) error {
	_, err := s.changed(o, "a frame of another length", func(frame []byte) (list [][]byte) {
		for n := ethernet; n < len(frame); n++ {
			list = append(list, bytes.Clone(frame[:n]))
			if n >= headers(frame).body {
				list = append(list, shortened(frame, n, s.shape.at, s.v6))
			}
		}
		longer := bytes.Clone(frame)
		for range 64 {
			longer = append(longer, 0x42)
			list = append(list, repair(bytes.Clone(longer)))
		}
		return append(list, fragments(frame, s.MTU)...)
	})
	if err != nil {
		return err
	}
	if !s.passes() {
		hole(o, "after frames of all lengths, no packet of the pair passes")
	}
	return nil
}

// again hands on a frame that was delivered before, and says whether it is delivered once more.
func (s *stand) again(o *attack.Outcome, number uint32, frame []byte, when string) error {
	before := s.in.count(number)
	sent, err := s.relay.inject(frame)
	if err != nil {
		return err
	}
	o.Sent += sent
	s.settle(o)
	for range s.in.count(number) - before {
		hole(o, "a frame is delivered once more %s", when)
	}
	return nil
}

// replay repeats a frame.
func (s *stand) replay(ctx context.Context, o *attack.Outcome) error {
	number, p := s.payload(size)
	frames, err := s.catch(p)
	if err != nil {
		missed(o, err.Error())
		return nil
	}
	frame := frames[0]
	if _, err := s.relay.inject(frame); err != nil {
		return err
	}
	if !s.in.arrives(number, patience) {
		missed(o, "a frame that was held back")
		return nil
	}
	if err := s.again(o, number, frame, "at once"); err != nil {
		return err
	}
	const others = 100
	var list [][]byte
	for range others {
		_, p := s.payload(size)
		list = append(list, p)
	}
	s.send(list...)
	if err := s.again(o, number, frame, fmt.Sprintf("after %d others", others)); err != nil {
		return err
	}
	if s.Guards == (Guards{}) {
		return nil // there are no keys
	}
	if err := s.renew(ctx); err != nil {
		s.left = "not tried after new keys: " + brief(err)
		return nil
	}
	if !s.passes() {
		missed(o, "a packet of the pair with new keys")
	}
	return s.again(o, number, frame, "after keys were renewed")
}

// renew has all hosts renew their keys.
func (s *stand) renew(ctx context.Context) error {
	if s.Rekey == nil {
		return fmt.Errorf("nobody can ask for them here: %w", errors.ErrUnsupported)
	}
	before := s.messages()
	err := s.Rekey(ctx)
	s.asked += s.messages() - before
	return err
}

// reorder hands on frames in the reverse order, each twice.
func (s *stand) reorder(o *attack.Outcome) error {
	const many = 32
	var numbers []uint32
	var list [][]byte
	for range many {
		number, p := s.payload(size)
		numbers, list = append(numbers, number), append(list, p)
	}
	frames, err := s.catch(list...)
	if err != nil {
		missed(o, err.Error())
		return nil
	}
	for _, f := range slices.Backward(frames) {
		sent, err := s.relay.inject(f, f)
		if err != nil {
			return err
		}
		o.Sent += sent / 2
	}
	s.settle(o)
	came := false
	for _, number := range numbers {
		n := s.in.count(number)
		if came = came || n > 0; n > 1 {
			hole(o, "a frame that comes late and twice is delivered twice")
		}
	}
	if !came {
		missed(o, "any of the frames that were held back")
	}
	return nil
}

// A made is a frame that was made up.
type made struct {
	number uint32
	frame  []byte
	what   string
}

// invent makes up what the other host could have sent: where the payload can be read, a frame with another one. Else
// each packet that stands below a layer, in the place of what is encrypted, behind headers of any length.
func (s *stand) invent(like []byte) (list []made) {
	if s.shape.at > 0 {
		for range 4 {
			number, p := s.payload(size)
			list = append(list, made{number, remade(like, s.shape.at, p, s.v6), "a packet that was made up"})
		}
	}
	body := headers(like).body
	for _, form := range s.shape.forms {
		const longest = 64 // of the headers that are looked for
		for at := body; at <= body+longest; at += 4 {
			number, p := s.payload(size)
			plain := remade(form, bytes.Index(form, s.magic[:]), p, s.v6)[ethernet:]
			frame := bytes.Clone(like[:min(at, len(like))])
			frame = repair(append(frame, plain...))
			list = append(list, made{number, frame, fmt.Sprintf("a plain packet %d bytes behind the outer header", at-body)})
		}
	}
	return list
}

// deliver hands on what was made up, and counts what of it is delivered.
func (s *stand) deliver(o *attack.Outcome, list []made, by string) error {
	for _, m := range list {
		sent, err := s.relay.inject(m.frame)
		if err != nil {
			return err
		}
		if o.Sent += sent; o.Sent%burst == 0 {
			time.Sleep(pause)
		}
	}
	s.settle(o)
	for _, m := range list {
		if s.in.count(m.number) > 0 {
			hole(o, "%s, %s, is delivered", m.what, by)
		}
	}
	return nil
}

// template catches a frame, and lets it go on.
func (s *stand) template(o *attack.Outcome) ([]byte, error) {
	number, p := s.payload(size)
	frames, err := s.catch(p)
	if err != nil {
		missed(o, err.Error())
		return nil, nil
	}
	if _, err := s.relay.inject(frames[0]); err != nil {
		return nil, err
	}
	if !s.in.arrives(number, patience) {
		missed(o, "a frame that was held back")
	}
	return frames[0], nil
}

// estranged gives frames the addresses of somebody who is no host.
func (s *stand) estranged(list []made) []made {
	mac := net.HardwareAddr{2, 0, 0x5e, 0x53, 0xfa, 0xfa} // none that comes from a seed
	for i, m := range list {
		v4, v6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
		switch h := headers(m.frame); {
		case h.l4 == 0:
		case h.v6:
			v6 = stranger(m.frame[ethernet+8 : ethernet+24])
		default:
			v4 = stranger(m.frame[ethernet+12 : ethernet+16])
		}
		list[i].frame = from(m.frame, mac, v4, v6)
	}
	return list
}

// stranger sends what it has made up from an address that no host has.
func (s *stand) stranger(o *attack.Outcome) error {
	like, err := s.template(o)
	if like == nil {
		return err
	}
	return s.deliver(o, s.estranged(s.invent(like)), "from an address that no host has")
}

// peer sends what it has made up from the address of the other host.
func (s *stand) peer(o *attack.Outcome) error {
	like, err := s.template(o)
	if like == nil {
		return err
	}
	return s.deliver(o, s.invent(like), "from the address of the other host")
}

// plain sends packets without what should carry or protect them.
func (s *stand) plain(o *attack.Outcome) error {
	like, err := s.template(o)
	if like == nil {
		return err
	}
	if err := s.deliver(o, s.bare(like), "without what carries or protects it"); err != nil {
		return err
	}
	return s.deliver(o, s.estranged(s.bare(like)), "without that, from an address that no host has")
}

// bare are packets as they stand below each layer, for the receiving host of a frame.
func (s *stand) bare(like []byte) (list []made) {
	add := func(form []byte, what string) {
		if form == nil {
			return
		}
		number, p := s.payload(size)
		list = append(list, made{number, remade(form, bytes.Index(form, s.magic[:]), p, s.v6), what})
	}
	for _, form := range s.shape.forms {
		if inner(bytes.Index(form, s.magic[:]), s.v6) == ethernet {
			add(form, "a packet for the container itself")
			continue
		}
		add(form, "a packet of the tunnel")
		add(readdressed(form, like), "a packet of the tunnel, to the host's own address")
	}
	return list
}

// greeting puts a message into a frame like another one; nil: there is no packet of IP in that.
func greeting(hello threat.Hello, like []byte) []byte {
	h := headers(like)
	if h.l4 == 0 {
		return nil
	}
	p := packet.Datagram(netip.AddrPortFrom(netip.IPv4Unspecified(), hello.Port),
		netip.AddrPortFrom(netip.IPv4Unspecified(), hello.Port), string(hello.Data))
	frame := append(bytes.Clone(like[:h.l4]), p...)
	if h.v6 {
		frame[ethernet+6] = packet.UDP
	} else {
		frame[ethernet+9] = packet.UDP
	}
	return repair(frame)
}

// hello sends first messages of key exchanges, from a stranger and with the address of the other host, and then what
// the stranger has made up. Packets of the pair must pass afterwards.
func (s *stand) hello(o *attack.Outcome) error {
	like, err := s.template(o)
	if like == nil {
		return err
	}
	var list []made
	for _, hello := range s.Hellos {
		const times = 20
		for range times {
			if frame := greeting(hello, like); frame != nil {
				list = append(list, made{frame: frame, what: hello.Name})
			}
		}
	}
	clone := func(list []made) []made {
		list = slices.Clone(list)
		for i := range list {
			list[i].frame = bytes.Clone(list[i].frame)
		}
		return list
	}
	for _, sent := range [][]made{s.estranged(clone(list)), list, s.estranged(s.invent(like))} {
		if err := s.deliver(o, sent, "from a stranger after a key exchange"); err != nil {
			return err
		}
	}
	if !s.passes() {
		hole(o, "after key exchanges by a stranger, no packet of the pair passes")
	}
	return nil
}

// silence lets no frame pass for a while, in which containers send and keys are to be renewed. Nothing may be sent in
// another way, and packets must pass afterwards.
func (s *stand) silence(ctx context.Context, o *attack.Outcome) error {
	var got record
	s.relay.intercept(func(_ *port, frame []byte) bool {
		got.keep(frame)
		return false
	})
	const long = 1500 * time.Millisecond
	limited, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	renewed := make(chan error, 1)
	go func() { renewed <- s.renew(limited) }()
	for limited.Err() == nil {
		_, p := s.payload(size)
		s.send(p)
		time.Sleep(settle / 3)
	}
	s.relay.intercept(func(_ *port, frame []byte) bool {
		got.keep(frame)
		return true
	})
	// Otherwise it cannot succeed, as nothing passes.
	if err := <-renewed; errors.Is(err, errors.ErrUnsupported) && s.Guards != (Guards{}) {
		s.left = "not tried while keys are renewed: " + brief(err)
	}
	back := s.passes()
	s.relay.intercept(nil)
	s.read(o, got.all())
	if !back {
		hole(o, "after a silence in which keys were to be renewed, no packet of the pair passes")
	}
	return ctx.Err()
}

// weaker offers ciphers and versions that are weaker than those of the hosts, with the address of the other host and
// from a stranger, and looks at the answers. It holds these back, because no host has asked for them. The ciphers of
// the hosts have to be taken, from the other host.
func (s *stand) weaker(o *attack.Outcome) error {
	like, err := s.template(o)
	if like == nil {
		return err
	}
	answered := false
	for _, offer := range s.Offers {
		one := made{frame: greeting(offer.Hello, like), what: "an offer of " + offer.Name}
		if one.frame == nil {
			continue
		}
		mine, taken, err := s.offered(offer, one.frame)
		if err != nil {
			return err
		}
		answered = answered || mine
		switch {
		case offer.Usual && !answered:
			o.Sent, o.NotTried = 0, "nobody answers an offer, so no program negotiates here"
			return nil
		case offer.Usual && !taken:
			missed(o, one.what+", for which hosts are set up")
		case offer.Usual:
		default:
			o.Sent += 2
			if taken {
				hole(o, "%s is taken from the address of the other host", one.what)
			}
			if mine, taken, err = s.offered(offer, s.estranged([]made{one})[0].frame); err != nil {
				return err
			}
			if answered = answered || mine; taken {
				hole(o, "%s is taken from an address that no host has", one.what)
			}
		}
	}
	s.settle(o)
	return nil
}

// offered hands on an offer, once more if the answer asks for that, and says whether it is answered, and taken. It
// waits less long for the answer to one that need not be answered.
func (s *stand) offered(offer threat.Offer, frame []byte) (answered, taken bool, err error) {
	var answers record
	s.relay.intercept(func(_ *port, frame []byte) bool {
		mine, _, _ := offer.Answers.Read(body(frame))
		if mine {
			answers.keep(frame)
		}
		return !mine
	})
	defer s.relay.intercept(nil)
	wait := patience
	if !offer.Usual {
		wait = settle
	}
	for seen := 0; ; {
		if _, err := s.relay.inject(frame); err != nil {
			return false, false, err
		}
		poll(wait, func() bool { return len(answers.all()) > seen })
		var again []byte
		for _, frame := range answers.all()[seen:] {
			_, one, more := offer.Answers.Read(body(frame))
			answered, taken, again = true, taken || one, more
		}
		if again == nil || seen > 0 {
			return answered, taken, nil
		}
		seen = len(answers.all())
		frame = greeting(threat.Hello{Port: offer.Port, Data: again}, frame)
	}
}

// body is what the outermost headers of a frame carry.
func body(frame []byte) []byte { return frame[min(headers(frame).body, len(frame)):] }

// brief is an error without the host and the step that it is of, if what it says is so on all hosts.
func brief(err error) string {
	if u, ok := errors.AsType[*linux.UnsupportedError](err); ok {
		return u.Error()
	}
	return err.Error()
}
