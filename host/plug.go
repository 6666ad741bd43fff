package host

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// Machine refers to the network namespace of the machine, for a host that was given it: that of a network which takes a NIC from there.
const Machine = "@machine"

// A Plug moves a link that is there already into a container, as a cable is plugged in, and sets it up there. Undoing it moves it back, with the name, the MTU and the state that it
// had. What is needed where it is cannot be taken away.
type Plug struct {
	// FromNS and From are where the link is, and its name there.
	FromNS string `json:"from_ns,omitempty"`
	From   string `json:"from"`
	// NS and Name are where it goes, and its name there.
	NS   string `json:"ns"`
	Name string `json:"name"`
	// MTU in bytes; 0 leaves it.
	MTU int `json:"mtu,omitempty"`
	// Addresses are in CIDR notation, of either family.
	Addresses []string `json:"addresses,omitempty"`
	// Timed notes how long it takes, as plug_time (s): from the beginning of the move until the link has its carrier and takes in packets to its addresses. It is the median of several times (of a real card, which takes seconds, of one), which are
	// taken before anything else is built on the link: moving it takes away the neighbours, routes and filters that are tied to it.
	Timed bool `json:"timed,omitempty"`
}

const (
	// plugs is how often a timed link is plugged in.
	plugs = 3
	// plugPause is between questions whether it is there.
	plugPause = 50 * time.Microsecond
	// negotiating is how long a real card may take to have its carrier.
	negotiating = 6 * time.Second
	// returning is how long a link of the machine is waited for: the kernel gives those of a namespace that has ended back in the background.
	returning = time.Second
)

// Kind returns "plug".
func (Plug) Kind() string { return "plug" }

// String says the step as a person would.
func (p Plug) String() string {
	s := "plug " + at(p.From, p.FromNS) + in(p.NS) + " as " + p.Name + traits("", p.MTU, p.Addresses)
	if p.Timed {
		s += ", timed"
	}
	return s
}

// UndoneFirst makes Plug a [FirstUndone]: a link that is still in a container when that ends is not given back to where it was.
func (Plug) UndoneFirst() {}

// Apply moves the link.
func (p Plug) Apply(k *Kernel) (func() error, error) {
	addresses, err := parseAddresses(p.Addresses)
	if err != nil {
		return nil, err
	}
	m := &plugged{Plug: p, kernel: k, addresses: addresses}
	var h, inside *link.Handle
	if m.from, h, err = k.at(p.FromNS); err != nil {
		return nil, err
	}
	if m.to, inside, err = k.at(p.NS); err != nil {
		return nil, err
	}
	if m.was, err = m.find(h); err != nil {
		return nil, err
	}
	rounds := 1
	if p.Timed && p.FromNS != Machine { // a real card takes seconds to agree with the other end of its cable
		rounds = plugs
	}
	var times []time.Duration
	for i := range rounds {
		if i > 0 {
			if err := m.undo(); err != nil {
				return nil, err
			}
		}
		began := time.Now()
		if err := m.plug(h, inside); err != nil {
			return nil, errors.Join(err, m.undo())
		}
		if !p.Timed {
			break
		}
		ready, err := m.wait(inside)
		if err != nil {
			return nil, errors.Join(err, m.undo())
		}
		if !ready { // the other end may come later; Verify will say
			k.Doubt("how long it takes to plug %s in was not measured: it had no carrier %v later", p.From, p.patience())
			return m.undo, nil
		}
		times = append(times, time.Since(began))
	}
	if slices.Sort(times); len(times) > 0 {
		k.Metric("plug_time", times[len(times)/2].Seconds())
	}
	return m.undo, nil
}

// plugged is a link on its way.
type plugged struct {
	Plug
	kernel    *Kernel
	from, to  *space
	addresses []netip.Prefix
	was       link.Link
}

// find reads the link where it is, and refuses one that is needed there.
func (p *plugged) find(h *link.Handle) (link.Link, error) {
	l, err := h.ByName(p.From)
	if p.FromNS == Machine {
		for deadline := time.Now().Add(returning); errors.Is(err, link.ErrNotFound) && time.Now().Before(deadline); l, err = h.ByName(p.From) {
			time.Sleep(pollPause)
		}
	}
	if err != nil || p.FromNS == "" { // what is on the host was made for this
		return l, err
	}
	switch reason, err := h.InUse(p.From); {
	case err != nil:
		return l, err
	case reason != "":
		return l, fmt.Errorf("link %q cannot be taken: %s", p.From, reason)
	}
	return l, nil
}

// plug moves the link there. What fails leaves it where undo finds it.
func (p *plugged) plug(h, inside *link.Handle) error {
	p.kernel.forget(p.from, p.From)
	if err := h.Move(p.was.Index, p.to.file); err != nil {
		return err
	}
	l, err := inside.ByName(p.From) // its index can be another's there
	if err != nil {
		return err
	}
	if p.Name != p.From {
		if err := inside.SetName(l.Index, p.Name); err != nil {
			return err
		}
	}
	if p.MTU != 0 && p.MTU != l.MTU {
		if err := inside.SetMTU(l.Index, p.MTU); err != nil {
			return err
		}
	}
	if err := inside.SetUp(l.Index, true); err != nil {
		return err
	}
	p.kernel.remember(p.to, p.Name, l.Index)
	return addAddresses(inside, l.Index, p.addresses)
}

// patience is how long the link is waited for.
func (p Plug) patience() time.Duration {
	if p.FromNS == Machine {
		return negotiating
	}
	return settle
}

// wait waits until packets can pass, and says whether they can.
func (p *plugged) wait(inside *link.Handle) (ready bool, err error) {
	for deadline := time.Now().Add(p.patience()); ; time.Sleep(plugPause) {
		l, err := inside.ByName(p.Name)
		if err != nil {
			return false, err
		}
		ready := l.Running
		for _, a := range p.addresses {
			if ready {
				if ready, err = inside.Local(a.Addr()); err != nil {
					return false, err
				}
			}
		}
		if ready || time.Now().After(deadline) {
			return ready, nil
		}
	}
}

// undo moves the link back. One that is gone, with its container or otherwise, is nobody's.
func (p *plugged) undo() error {
	if at, _ := p.kernel.gone(p.to); !at.IsZero() {
		return nil
	}
	inside, err := p.kernel.handle(p.to)
	if err != nil {
		return err
	}
	l, err := inside.ByName(p.Name)
	if errors.Is(err, link.ErrNotFound) {
		l, err = inside.ByName(p.From) // it did not come to be renamed
	}
	if errors.Is(err, link.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	p.kernel.forget(p.to, p.Name)
	if err := inside.SetUp(l.Index, false); err != nil {
		return err
	}
	if l.Name != p.From {
		if err := inside.SetName(l.Index, p.From); err != nil {
			return err
		}
	}
	if l.MTU != p.was.MTU {
		if err := inside.SetMTU(l.Index, p.was.MTU); err != nil {
			return err
		}
	}
	if err := inside.Move(l.Index, p.from.file); err != nil {
		return err
	}
	h, err := p.kernel.handle(p.from)
	if err != nil {
		return err
	}
	back, err := h.ByName(p.From)
	if err != nil {
		return err
	}
	p.was.Index = back.Index
	if p.was.Up {
		return h.SetUp(back.Index, true)
	}
	return nil
}

// Verify reads the link back where it went. It waits for its carrier.
func (p Plug) Verify(k *Kernel) error {
	c := check{step: p}
	for deadline := time.Now().Add(p.patience() - settle); time.Now().Before(deadline) && p.waiting(k); {
		time.Sleep(pollPause)
	}
	return c.settled(k, p.Name, func() (running bool, err error) {
		err = c.link(k, p.NS, p.Name, func(l link.Link, h *link.Handle) error {
			running = l.Running
			c.equal(p.Name, up, state(l))
			return c.traits(h, l, "", p.MTU, p.Addresses)
		})
		if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
			return false, err
		}
		return running, nil
	})
}

// waiting says whether the link is there and has no carrier yet.
func (p Plug) waiting(k *Kernel) bool {
	h, err := k.Links(p.NS)
	if err != nil {
		return false
	}
	l, err := h.ByName(p.Name)
	return err == nil && l.Up && !l.Running
}
