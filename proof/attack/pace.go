package attack

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/proof/busy"
)

// A pace is how frames are sent: so many so far, with a pause after each [burst].
type pace struct {
	sent  int
	pause time.Duration
	read  func()       // waits until what was sent has been read; nil: nobody waits
	over  func() error // why no more is sent, nil as long as it is
}

// stopped returns why no more is sent: the attack takes too long, or was interrupted.
func (p *pace) stopped() error {
	if p.over == nil {
		return nil
	}
	return p.over()
}

// keep is called after each frame.
func (p *pace) keep() {
	if p.sent++; p.sent%burst == 0 {
		time.Sleep(p.pause)
		if p.read != nil {
			p.read()
		}
	}
}

// unread is how many packets switches in userspace have not read because a queue was full: those of packet sockets and
// of tap devices, or that in which the kernel asks a daemon what to do with a packet; 0 if the kernel does not say. The
// packets for which the taps had no room are among them.
func (s *stand) unread() (sum uint64) {
	_, sum = s.taps.queues()
	links := func(h *link.Handle) error {
		list, err := h.Traffic()
		for _, l := range list {
			sum += l.Unread
		}
		return err
	}
	for _, m := range s.machines {
		_ = within(m.ns, func(h *link.Handle) error {
			_, n, err := busy.Queues()
			if err != nil {
				return err
			}
			sum += n
			return links(h)
		})
	}
	for _, e := range s.ends { // a container's own link may be a tap device
		_ = within(e.ns, links)
	}
	return sum
}

// waiting is how many bytes of packets wait in the queues of switches (see [busy.Queues]); 0 if the kernel does not
// say.
func (s *stand) waiting() (sum uint64) {
	for _, m := range s.machines {
		_ = within(m.ns, func(*link.Handle) error {
			n, _, err := busy.Queues()
			sum += n
			return err
		})
	}
	return sum
}

// read waits until switches and taps have read what was sent, for as long as packets may be late.
func (s *stand) read() {
	for end := time.Now().Add(longest); time.Now().Before(end) && s.pace.stopped() == nil; time.Sleep(time.Millisecond) {
		if left, _ := s.taps.queues(); left+s.waiting() == 0 {
			return
		}
	}
}

// unlost sends packets until switches and taps have read them all: what nobody has read, nobody has refused. Each time
// there is a longer pause after each [burst], and in the end one until all of it has been read: a daemon may wait for a
// CPU for longer than any pause.
func (s *stand) unlost(send func() error) error {
	const longer, patient, times = 4, 4, 5
	usual := s.pace.pause
	defer func() { s.pace.pause, s.pace.read = usual, nil }()
	for n := 1; ; n++ {
		if n == patient {
			s.pace.read = s.read
		}
		before := s.unread()
		if err := send(); err != nil {
			return err
		}
		now := s.unread()
		if now <= before { // what a socket has counted is gone when it is closed
			return nil
		}
		if n == times {
			return fmt.Errorf("%d packets were not read in time, with a pause of at least %v after each %d: the machine "+
				"is too busy to tell", now-before, s.pace.pause, burst)
		}
		s.pace.pause *= longer
	}
}

// watch watches other work (see [busy.Watch]), and the queues from which switches in userspace read their ports.
func (s *stand) watch() (excused func() bool) { return busy.Watch(s.unread) }

// resend sends those that are allowed and did not arrive once more, without haste, if other work is to blame (see
// [busy.Watch]) and they are few.
func (s *stand) resend(list []try, excused func() bool) (err error) {
	for range busy.Again {
		var lost []try // each with the ports that have to pass
		of := 0
		for _, t := range list {
			if t.counts == nil || t.to == nil {
				continue
			}
			passes := func(port uint16) bool { return t.counts(t.to.index, port) == allowed }
			t.ports = slices.DeleteFunc(slices.Clone(t.ports), func(port uint16) bool { return !passes(port) })
			if len(t.ports) == 0 {
				continue
			}
			if of++; !slices.ContainsFunc(s.taps.got(s.behind(), t.to.index, t.number), passes) {
				lost = append(lost, t)
			}
		}
		if len(lost) == 0 || len(lost) > busy.Few(of) || !excused() {
			return nil
		}
		excused = s.watch()
		for _, t := range lost {
			for _, port := range t.ports {
				for _, f := range t.made(s.key(t.number, port), port) {
					if err := t.from.send(f); err != nil {
						return err
					}
				}
				time.Sleep(time.Millisecond)
			}
		}
		if err := s.settle(); err != nil {
			return err
		}
	}
	return nil
}
