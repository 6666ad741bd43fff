package attack

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/proof/busy"
	"github.com/nettoll/nettoll/proof/packet"
)

// A try is a packet that is sent, or one for each of some ports, and whether it may arrive.
type try struct {
	what   string
	from   *end
	to     *end     // who is to refuse it, nil: everybody
	ports  []uint16 // what made is called with, nil: 0
	made   func(key string, port uint16) [][]byte
	counts func(at int, port uint16) verdict // where it was received; nil: it is refused wherever that is
	hosts  bool                              // it is hosts that count, and no container
	whole  bool                              // it counts where it was taken for the container's own, and put together
	// answers says that the packets look like answers to a translated container. Its host may have changed the port of a
	// flow, if another one had it already. What answers that flow is for the port that it began from, so it is judged by
	// the port that it arrives for.
	answers bool
	each    string // what ports are, "" for ports
	linked  bool   // it counts at links, also where filters stand inside
	heard   bool   // it is allowed, and must not be heard at other links
	only    uint16 // it counts only if it arrives for this port; 0: for any
	number  uint32
}

// A verdict is what it means that a packet has arrived.
type verdict int

const (
	hole    verdict = iota
	fine            // it may
	allowed         // it has to
)

// key is what packets of a try carry.
func (s *stand) key(number uint32, port uint16) string {
	b := binary.BigEndian.AppendUint32(s.magic[:len(s.magic):len(s.magic)], number)
	return string(binary.BigEndian.AppendUint16(b, port))
}

// most is how many holes are said in words.
const most = 12

// try makes tries, all at once, and adds to an outcome what came of them.
func (s *stand) try(o *Outcome, list []try) error {
	for i := range list {
		t := &list[i]
		s.number++
		t.number = s.number
		if t.ports == nil {
			t.ports = []uint16{0}
		}
	}
	list = slices.DeleteFunc(list, func(t try) bool {
		if t.from.refusal != "" {
			o.unsent(t.meant(), t.from.refusal)
		}
		return t.from.refusal != ""
	})
	var excused func() bool
	made := 0
	if err := s.unlost(func() error {
		excused = s.watch()
		for i, t := range list {
			made = max(made, i)
			for _, port := range t.ports {
				for _, f := range t.made(s.key(t.number, port), port) {
					if err := t.from.send(f); err != nil {
						return fmt.Errorf("%s: send from %s: %w", t.what, t.from.Name, err)
					}
				}
			}
		}
		made = len(list)
		return s.settle()
	}); err != nil {
		for _, t := range list[:made] { // what has arrived until now shows that the lab lets it pass
			s.count(o, t)
		}
		return err
	}
	if err := s.resend(list, excused); err != nil {
		return err
	}
	for _, t := range list {
		s.count(o, t)
	}
	return nil
}

// verdict says what it means that a packet arrives.
func (t try) verdict(at int, port uint16) verdict {
	if t.counts == nil {
		return hole
	}
	return t.counts(at, port)
}

// of says what it means that a packet arrives at who it is for.
func (t try) of(port uint16) verdict {
	if t.to == nil {
		return hole
	}
	return t.verdict(t.to.index, port)
}

// meant is how many packets are sent that have to be refused.
func (t try) meant() (n int) {
	for _, port := range t.ports {
		if t.of(port) == hole || t.heard {
			n++
		}
	}
	return n
}

// settle waits for the packets that were sent: first until switches have looked at them, then until the taps have.
func (s *stand) settle() error { return s.drained(settle) }

// wait waits so long, and then until switches and taps have read what was sent.
func (s *stand) wait(long time.Duration) error {
	time.Sleep(long)
	return s.drained(tick)
}

// drained waits until switches have looked at what was sent, and then until the taps have read nothing for so long.
func (s *stand) drained(still time.Duration) error {
	if err := busy.Drain(s.waiting, nil); err != nil {
		return err
	}
	return s.taps.quiet(int(still/tick), int(longest/tick))
}

// until waits until something has arrived, at least so long, and while packets wait to be read. It returns false if it
// has not.
func (s *stand) until(arrived func() bool, within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if arrived() {
			return true
		}
	}
	_ = s.wait(0) // what has not arrived until then does not
	return arrived()
}

// count adds what arrived of a try.
func (s *stand) count(o *Outcome, t try) {
	var wanted, came bool
	verdicts := t.verdict
	for _, port := range t.ports {
		wanted = wanted || t.of(port) == allowed
	}
	o.Sent += t.meant()
	arrived := map[uint16]bool{}
	receivers, where := len(s.ends), atLink
	switch {
	case t.hosts:
		receivers, where = len(s.machines), onHost
	case !t.linked && s.Inside || t.whole:
		where = inside
	}
	for at := range receivers {
		if !t.hosts && s.ends[at] == t.from {
			continue // what comes back to who has sent it, in an error
		}
		var through []uint16
		for _, port := range s.taps.got(where, at, t.number) {
			switch verdicts(at, port) {
			case hole:
				if came := s.taps.port(where, at, t.number, port); t.answers && came != 0 && verdicts(at, came) != hole {
					continue
				}
				if t.only != 0 && s.taps.port(where, at, t.number, port) != t.only {
					continue // it is another packet than the one that was hidden
				}
				if where == atLink && !t.heard && t.to != nil && at != t.to.index && verdicts(t.to.index, port) != hole &&
					!slices.Contains(s.taps.got(inside, at, t.number), port) {
					continue // what is allowed was flooded, and a container has not taken what is not for it
				}
				through = append(through, port)
			case allowed:
				came = true
			case fine:
			}
		}
		if len(through) == 0 {
			continue
		}
		for _, port := range through {
			arrived[port] = true
		}
		var name string
		if t.hosts {
			name = s.machines[at].name
		} else {
			name = s.ends[at].Name
		}
		said := fmt.Sprintf("%s, from %s, arrives at %s", t.what, t.from.Name, name)
		if len(t.ports) > 1 {
			said += ": " + ranges(through, cmp.Or(t.each, "port"))
		}
		o.hole(said)
	}
	if s.seen != nil {
		for _, port := range t.ports {
			s.seen(*o, t.what, t.each, port, s.came(t, where, receivers, port))
		}
	}
	o.Arrived += len(arrived)
	if wanted && !came {
		o.Missing = append(o.Missing, t.what+", from "+t.from.Name)
	}
}

// came says whether a packet of a try has arrived anywhere, whether or not it may.
func (s *stand) came(t try, where place, receivers int, port uint16) bool {
	for at := range receivers {
		if (t.hosts || s.ends[at] != t.from) && slices.Contains(s.taps.got(where, at, t.number), port) &&
			(t.only == 0 || s.taps.port(where, at, t.number, port) == t.only) {
			return true
		}
	}
	return false
}

func (o *Outcome) hole(said string) {
	if len(o.Holes) < most && !slices.Contains(o.Holes, said) {
		o.Holes = append(o.Holes, said)
	}
}

// ranges says which ports there are, shortly.
func ranges(ports []uint16, each string) string {
	slices.Sort(ports)
	said := fmt.Sprintf("%d %ss", len(ports), each)
	if len(ports) == 1 {
		said = each
	}
	for i := 0; i < len(ports); {
		j := i
		for j+1 < len(ports) && ports[j+1] == ports[j]+1 {
			j++
		}
		if i > 0 {
			said += ","
		}
		if j == i {
			said += fmt.Sprintf(" %d", ports[i])
		} else {
			said += fmt.Sprintf(" %d-%d", ports[i], ports[j])
		}
		if i = j + 1; len(said) > 80 && i < len(ports) {
			return said + ", …"
		}
	}
	return said
}

// full is how long a queue of a link may be full.
const full = 100 * time.Millisecond

// send sends a frame, and waits while the queue is full. ipvlan in modes l3 and l3s drops with the same error all that
// is not IP or is for several receivers (drivers/net/ipvlan/ipvlan_core.c, ipvlan_process_outbound). That is no failure
// of the try: the link refuses it.
func (e *end) send(frame []byte) error {
	rounds, dropped := int(full/time.Millisecond), e.bare && (!isIP(frame) || forSeveral(frame))
	if dropped {
		rounds = 2
	}
	if e.refusal != "" {
		return errors.New(e.refusal)
	}
	if err := e.pace.stopped(); err != nil {
		return err
	}
	for range rounds {
		if _, err := e.out.Write(frame); !errors.Is(err, syscall.ENOBUFS) {
			e.pace.keep()
			return err
		}
		time.Sleep(time.Millisecond)
	}
	if dropped {
		return nil
	}
	return fmt.Errorf("a queue of the link is full for %v", full)
}

// forSeveral reports whether a packet is for several receivers, by its MAC address or by that of IPv4.
func forSeveral(frame []byte) bool {
	const group, to = 1, 30 // the bit in the first byte of a MAC address; where an IPv4 packet has its receiver
	if frame[0]&group != 0 {
		return true
	}
	if binary.BigEndian.Uint16(frame[12:]) != packet.TypeIPv4 || len(frame) < to+4 {
		return false
	}
	a := netip.AddrFrom4([4]byte(frame[to:]))
	return a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func isIP(frame []byte) bool {
	kind := binary.BigEndian.Uint16(frame[12:])
	return kind == packet.TypeIPv4 || kind == packet.TypeIPv6
}
