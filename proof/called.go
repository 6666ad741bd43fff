package proof

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// called are the ends if parties send and hear: each container by what any program in it may, and nobody at hosts. All
// parties work at the same time, and a call has the tries of many ways.
type called struct {
	*reaching
	parties []Party // by container
	opened  []Opened
	begun   map[netip.AddrPort][]int // tries that are connections, by where they come from
	echoes  [][2]int64               // counted at containers
	closing time.Time                // when the last tries were sent for the first time
}

// slow is how long what must arrive may take. A network that somebody else has made may judge the first packets of all
// connections one after the other, in a queue. That of kube-network-policies took up to 3.6 s for those of eight labs,
// on a busy machine with two CPUs, and lost none.
const slow = 5 * time.Second

// open has all parties listen at the ports that tries are for.
func (c *called) open(ctx context.Context) error {
	c.begun, c.echoes = map[netip.AddrPort][]int{}, make([][2]int64, len(c.containers))
	c.opened = make([]Opened, len(c.containers))
	for _, one := range c.containers {
		c.parties = append(c.parties, c.Party(one.Container))
	}
	err := c.all(ctx, func(ctx context.Context, i int, p Party) (err error) {
		of := c.containers[i]
		c.opened[i], err = p.Open(ctx, Listening{
			IPv4: of.IPv4, IPv6: of.IPv6, Source: of.First, Ports: c.ports(i), Mark: c.magic[:], Wait: tryWait + c.Patience.Trip,
		})
		return err
	})
	c.omit, c.omitted = c.cannot, []string{"hosts and groups (containers cannot count what arrives there)"}
	return err
}

// ports are those of a container that tries are for.
func (c *called) ports(to int) (list []uint16) {
	for from := range c.containers {
		if from == to {
			continue
		}
		for _, v6 := range []bool{false, true} {
			for _, p := range c.toContainer(way{from, to}, v6) {
				if port := p.target.Port(); p.kind != echo && port != 0 {
					list = append(list, port)
				}
			}
		}
		break // for all others they are the same
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// cannot says what of a try cannot be made here and, in brackets, why.
func (c *called) cannot(p probe) string {
	if p.to >= len(c.containers) {
		return c.omitted[0]
	}
	to := c.containers[p.to]
	port := p.target.Port()
	taken := func(stream bool) bool {
		return slices.Contains(c.opened[p.to].Taken, Taken{IPv6: p.ipv6, Stream: stream, Port: port})
	}
	switch {
	case p.kind == echo && p.target.Addr() != to.Own(p.ipv6):
		return "ICMP echo to published addresses (who answers is not known)"
	case p.kind == echo:
		return ""
	case port == 0:
		return "port 0 (no program can listen there)"
	case p.kind == datagram && taken(false), p.kind == opening && taken(true):
		return fmt.Sprintf("%s for a port of %s (another program has it)", p.kind.text(), to.Name)
	}
	return ""
}

func (c *called) greet([]way, []byte) {}

// together is how many ways have so few tries that no container sends more than [together], or gets more.
func (c *called) together(ways []way) int {
	sends, gets := map[int]int{}, map[int]int{}
	for i, w := range ways {
		n := c.size(w, false) + c.size(w, true)
		sends[w.from] += n
		gets[w.to] += n
		if i > 0 && max(sends[w.from], gets[w.to]) > together {
			return i
		}
	}
	return len(ways)
}

func (c *called) after() time.Duration { return lastly + c.Patience.Trip }

// excused is true: what is between the hosts is not of the lab, and may lose packets. Claims send three, too.
func (c *called) excused() bool { return true }

// send has all parties send theirs.
func (c *called) send(ctx context.Context, numbers []int) error {
	shots := make([][]Shot, len(c.containers))
	for _, n := range numbers {
		p := c.sent[n]
		one := Shot{Number: n, Stream: p.kind == opening, To: p.target}
		if p.expect == due {
			one.Wait = slow + c.Patience.Trip
		}
		if p.kind == echo {
			one.To = netip.AddrPortFrom(p.target.Addr(), 0)
		}
		if p.kind == bare || p.kind == echo && !c.opened[p.from].Asks[map[bool]int{true: 1}[p.ipv6]] {
			c.unsent[n] = true
			continue
		}
		shots[p.from] = append(shots[p.from], one)
	}
	sent := make([]Sent, len(c.containers))
	if err := c.all(ctx, func(ctx context.Context, i int, p Party) (err error) {
		if len(shots[i]) > 0 {
			sent[i], err = p.Send(ctx, shots[i])
		}
		return err
	}); err != nil {
		return err
	}
	for i, list := range shots {
		for _, s := range list {
			n := s.Number
			if port := sent[i].Ports[n]; port != 0 {
				at := netip.AddrPortFrom(c.containers[i].Own(s.To.Addr().Is6()), port)
				c.begun[at] = append(c.begun[at], n)
			}
			if why := sent[i].Failed[n]; why == "" {
				delete(c.untold, n)
			} else if c.untold[n] = true; c.why == nil {
				c.why = fmt.Errorf("%s: %s", c.text(c.sent[n]), why)
			}
		}
	}
	return nil
}

// inLine is true: nobody knows how the network between containers judges packets.
func (c *called) inLine() bool { return true }

// settle waits until what was sent must have arrived, and asks for it.
func (c *called) settle(ctx context.Context, until []int) error {
	if c.closing.IsZero() {
		c.closing = time.Now()
	}
	return c.wait(ctx, until, time.Now().Add(tryWait+c.Patience.Trip))
}

// await waits until tries have had time to arrive that somebody judges slowly.
func (c *called) await(ctx context.Context, until []int) error {
	return c.wait(ctx, until, c.closing.Add(slow+c.Patience.Trip))
}

// wait asks what has arrived until an end, or until some tries have. Those may have come while others were asked, who
// did not know yet what had come before: so all are asked once more.
func (c *called) wait(ctx context.Context, until []int, end time.Time) error {
	for pause := c.after(); ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-time.After(pause):
		}
		if err := c.hear(ctx); err != nil {
			return err
		}
		if pause == quiet || until == nil {
			break
		}
		if time.Now().After(end) || !slices.ContainsFunc(until, func(n int) bool {
			return !slices.Contains(c.came[n], c.sent[n].to)
		}) {
			pause = quiet
		}
	}
	c.compare()
	return nil
}

// hear asks all parties what has arrived.
func (c *called) hear(ctx context.Context) error {
	heard := make([]Heard, len(c.containers))
	if err := c.all(ctx, func(ctx context.Context, i int, p Party) (err error) {
		heard[i], err = p.Heard(ctx)
		return err
	}); err != nil {
		return err
	}
	known := func(n int) bool { return n >= 0 && n < len(c.sent) }
	for i, h := range heard {
		c.echoes[i] = h.Echoes
		for _, n := range h.Numbers {
			if known(n) {
				c.note(n, i)
			}
		}
		for _, n := range h.Answered {
			if known(n) {
				c.note(n, c.sent[n].to)
			}
		}
		for _, r := range h.Requests {
			for _, n := range c.begun[r.From] {
				if p := c.sent[n]; p.to == i && p.target.Port() == r.Port {
					c.note(n, i)
				}
			}
		}
	}
	return nil
}

// compare compares the echo requests that were answered with those that the kernels of their receivers have counted. If
// there are more, somebody got one whose answer did not come back. From whom it was is not known.
func (c *called) compare() {
	c.doubted, c.doubts = map[int]bool{}, nil
	for i, of := range c.containers {
		for k, v6 := range []bool{false, true} {
			var all, open []int
			for n, p := range c.sent {
				if p.kind != echo || p.to != i || p.ipv6 != v6 || c.unsent[n] || c.untold[n] {
					continue
				}
				if all = append(all, n); len(c.came[n]) == 0 {
					open = append(open, n)
				}
			}
			counted, answered := c.echoes[i][k], int64(len(all)-len(open))
			if len(all) == 0 || counted == answered {
				continue
			}
			if counted < answered {
				open = all
			}
			for _, n := range open {
				c.doubted[n] = true
			}
			c.doubts = append(c.doubts, fmt.Sprintf("%s counts %d ICMP echo requests of %s, and %d were answered", of.Name,
				counted, family(v6), answered))
		}
	}
}

// close closes all parties. One that does not answer closes by itself with its process.
func (c *called) close(ctx context.Context) {
	_ = c.all(context.WithoutCancel(ctx), func(ctx context.Context, _ int, p Party) error { return p.Close(ctx) })
}

// all calls f for all parties at the same time. The error joins theirs.
func (c *called) all(ctx context.Context, f func(ctx context.Context, i int, p Party) error) error {
	errs := make([]error, len(c.parties))
	var group sync.WaitGroup
	for i, p := range c.parties {
		group.Go(func() {
			errs[i] = f(ctx, i, p)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
