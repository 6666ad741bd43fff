package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// Machine refers to the network namespace of the machine, for a host that was given it: that of a network which takes a
// NIC from there.
const Machine = "@machine"

// A MoveLink moves an existing link into a container and sets it up there. Removing it moves the link back, with the
// name, the MTU and the state that it had. A link that is in use where it is cannot be moved.
//
// A card of the machine ([Machine]) outlives the container: when that ends first, the kernel gives it back to the
// machine, down and with the MTU of the container. Removing it then puts back MTU and state.
type MoveLink struct {
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
	// Timed notes how long it takes, as plug_time (s): from the beginning of the move until the link has its carrier and
	// takes in packets to its addresses. It is the median of several times (of a real card, which takes seconds, of one),
	// which are taken before anything else is built on the link: moving it takes away the neighbours, routes and filters
	// that are tied to it.
	Timed bool `json:"timed,omitempty"`
}

const (
	// moves is how often a timed link is moved.
	moves = 3
	// carrierPause is between questions whether it is there.
	carrierPause = 50 * time.Microsecond
	// negotiating is how long a real card may take to have its carrier.
	negotiating = 6 * time.Second
	// returning is how long a link of the machine is waited for: the kernel gives those of a namespace that has
	// ended back in the background. On a busy machine it takes its time, and what is not waited for would stay as
	// the container had left it.
	returning = time.Second
	returned  = 3 * time.Second
)

// Kind returns "move-link".
func (MoveLink) Kind() string { return "move-link" }

// oldMoveLink is the former kind of [MoveLink]. Journals that an earlier build left may hold it, and 'nettoll clean'
// reads them.
const oldMoveLink = "plug"

// String says the step as a person would.
func (p MoveLink) String() string {
	s := "move " + at(p.From, p.FromNS) + into(p.NS) + " as " + p.Name + traits("", p.MTU, p.Addresses)
	if p.Timed {
		s += ", timed"
	}
	return s
}

// UndoneFirst makes MoveLink a [FirstUndone]: a link that is still in a container when the container ends does not
// return to where it was.
func (MoveLink) UndoneFirst() {}

// Outlives says that a card of the machine outlives the container.
func (p MoveLink) Outlives() Lifetime {
	if p.FromNS == Machine {
		return UntilBoot
	}
	return WithNamespaces
}

// movedFrom is what a [MoveLink] keeps of the link before it is moved.
type movedFrom struct {
	// MAC tells the link from another one of its name.
	MAC string `json:"mac"`
	MTU int    `json:"mtu"`
	Up  bool   `json:"up,omitempty"`
}

// is says whether a link is the one that was moved.
func (w movedFrom) is(l link.Link) bool { return l.MAC.String() == w.MAC }

// Apply moves the link.
func (p MoveLink) Apply(ctx context.Context, k *Kernel) error {
	addresses, err := parseAddresses(p.Addresses)
	if err != nil {
		return err
	}
	_, h, err := k.inside(p.FromNS)
	if err != nil {
		return err
	}
	to, inside, err := k.inside(p.NS)
	if err != nil {
		return err
	}
	found, err := p.find(ctx, h)
	if err != nil {
		return err
	}
	was := movedFrom{MAC: found.MAC.String(), MTU: found.MTU, Up: found.Up}
	if err := k.Keep(was); err != nil {
		return err
	}
	rounds := 1
	if p.Timed && p.FromNS != Machine { // a real card takes seconds to agree with the other end of its cable
		rounds = moves
	}
	var times []time.Duration
	for i := range rounds {
		if i > 0 {
			if err := p.moveBack(k, was); err != nil {
				return err
			}
		}
		began := time.Now()
		ready, err := p.move(k, h, to, inside, addresses)
		if err != nil {
			return errors.Join(err, p.moveBack(k, was))
		}
		if !p.Timed {
			return nil
		}
		if !ready { // the other end may come later; Verify will say
			k.Doubt("plug_time of %s was not measured: the link has no carrier after %v (see whether the other end is up)", p.From, p.patience())
			return nil
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	k.Metric("plug_time", times[len(times)/2].Seconds())
	return nil
}

// find reads the link where it is, and refuses one that is needed there.
func (p MoveLink) find(ctx context.Context, h *link.Handle) (link.Link, error) {
	l, err := p.await(ctx, h, returning)
	if err != nil || p.FromNS == "" { // what is on the host was made for this
		return l, err
	}
	switch reason, err := h.InUse(p.From); {
	case err != nil:
		return l, err
	case reason != "":
		return l, fmt.Errorf("link %q cannot be moved: %s", p.From, reason)
	}
	return l, nil
}

// await reads the link where it comes from. One of the machine may be on its way back from a container that has
// ended.
func (p MoveLink) await(ctx context.Context, h *link.Handle, limit time.Duration) (link.Link, error) {
	l, err := h.ByName(p.From)
	if p.FromNS != Machine {
		return l, err
	}
	for deadline := time.Now().Add(limit); errors.Is(err, link.ErrNotFound) && ctx.Err() == nil; {
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(pollPause)
		l, err = h.ByName(p.From)
	}
	return l, err
}

// move moves the link there and, where it is timed, waits until packets can pass, and says whether they can. What
// fails leaves it where moveBack finds it.
func (p MoveLink) move(
	k *Kernel, h *link.Handle, to *space, inside *link.Handle, addresses []netip.Prefix,
) (ready bool, err error) {
	found, err := h.ByName(p.From)
	if err != nil {
		return false, err
	}
	if from, err := k.space(p.FromNS); err == nil {
		k.forget(from, p.From)
	}
	if err := h.Move(found.Index, to.file); err != nil {
		return false, err
	}
	l, err := inside.ByName(p.From) // its index can be another's there
	if err != nil {
		return false, err
	}
	if p.Name != p.From {
		if err := inside.SetName(l.Index, p.Name); err != nil {
			return false, err
		}
	}
	if p.MTU != 0 && p.MTU != l.MTU {
		if err := inside.SetMTU(l.Index, p.MTU); err != nil {
			return false, err
		}
	}
	if err := inside.SetUp(l.Index, true); err != nil {
		return false, err
	}
	k.remember(to, p.Name, l.Index)
	if err := addAddresses(inside, l.Index, addresses); err != nil || !p.Timed {
		return false, err
	}
	return p.wait(inside, addresses)
}

// patience is how long the link is waited for.
func (p MoveLink) patience() time.Duration {
	if p.FromNS == Machine {
		return negotiating
	}
	return settle
}

// wait waits until packets can pass, and says whether they can.
func (p MoveLink) wait(inside *link.Handle, addresses []netip.Prefix) (ready bool, err error) {
	for deadline := time.Now().Add(p.patience()); ; time.Sleep(carrierPause) {
		l, err := inside.ByName(p.Name)
		if err != nil {
			return false, err
		}
		ready := l.Running
		for _, a := range addresses {
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

// Remove moves the link back. It succeeds if the link is gone. A card of the machine returns by itself when its
// container ends, and gets its former settings back.
func (p MoveLink) Remove(ctx context.Context, k *Kernel) error {
	var was movedFrom
	if ok, err := k.Kept(&was); !ok { // it was not moved yet
		return err
	}
	if err := p.moveBack(k, was); err != nil {
		return err
	}
	if p.FromNS != Machine {
		return nil
	}
	_, h, err := k.inside(p.FromNS)
	if err != nil {
		return err
	}
	l, err := p.await(ctx, h, returned)
	if errors.Is(err, link.ErrNotFound) && ctx.Err() != nil {
		return ctx.Err() // it may come yet
	}
	if errors.Is(err, link.ErrNotFound) || err == nil && !was.is(l) {
		return nil // it was pulled out, and its name is another's
	}
	if err != nil {
		return err
	}
	return p.putBack(h, l, was)
}

// moveBack moves the link out of the container, if it is there.
func (p MoveLink) moveBack(k *Kernel, was movedFrom) error {
	to, inside, stands, err := k.standing(p.NS)
	if !stands {
		return err
	}
	l, err := inside.ByName(p.Name)
	if errors.Is(err, link.ErrNotFound) || err == nil && !was.is(l) {
		l, err = inside.ByName(p.From) // it did not come to be renamed
	}
	if errors.Is(err, link.ErrNotFound) || err == nil && !was.is(l) {
		return nil
	}
	if err != nil {
		return err
	}
	from, h, err := k.inside(p.FromNS)
	if err != nil {
		return err
	}
	k.forget(to, p.Name)
	if err := inside.SetUp(l.Index, false); err != nil {
		return err
	}
	if l.Name != p.From {
		if err := inside.SetName(l.Index, p.From); err != nil {
			return err
		}
	}
	if l.MTU != was.MTU {
		if err := inside.SetMTU(l.Index, was.MTU); err != nil {
			return err
		}
	}
	if err := inside.Move(l.Index, from.file); err != nil {
		return err
	}
	back, err := h.ByName(p.From)
	if err != nil {
		return err
	}
	return p.putBack(h, back, was)
}

// putBack gives the link what it had where it is from. An MTU that is not the container's was set by somebody else
// since.
func (p MoveLink) putBack(h *link.Handle, l link.Link, was movedFrom) error {
	if p.MTU != 0 && l.MTU == p.MTU && l.MTU != was.MTU {
		if err := h.SetMTU(l.Index, was.MTU); err != nil {
			return err
		}
	}
	if was.Up && !l.Up {
		return h.SetUp(l.Index, true)
	}
	return nil
}

// Verify reads the link back where it went. It waits for its carrier.
func (p MoveLink) Verify(k *Kernel) error {
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
func (p MoveLink) waiting(k *Kernel) bool {
	h, err := k.Links(p.NS)
	if err != nil {
		return false
	}
	l, err := h.ByName(p.Name)
	return err == nil && l.Up && !l.Running
}
