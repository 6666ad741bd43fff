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

// Machine refers to the network namespace of the machine, for a host that has access to it: that of a network which
// takes a NIC from there.
const Machine = "@machine"

// A MoveLink moves an existing link into a container and sets it up there. Removing the step moves the link back, with
// its former name, MTU and state. A link that is in use where it is cannot be moved.
//
// A NIC of the machine ([Machine]) outlives the container. If the container ends first, the kernel returns the NIC to
// the machine, down and with the MTU of the container. Removing the step then restores MTU and state.
type MoveLink struct {
	// FromNS and From are the former namespace and name of the link.
	FromNS string `json:"from_ns,omitempty"`
	From   string `json:"from"`
	// NS and Name are the new namespace and name of the link.
	NS   string `json:"ns"`
	Name string `json:"name"`
	// MTU in bytes; 0 leaves it unchanged.
	MTU int `json:"mtu,omitempty"`
	// Addresses are in CIDR notation, of either family.
	Addresses []string `json:"addresses,omitempty"`
	// Timed measures how long the move takes, as plug_time (s): from the beginning of the move until the link has its
	// carrier and accepts packets to its addresses. It is the median of several moves; for a real NIC, which takes
	// seconds, it is a single move. The moves happen before anything else is built on the link, because a move removes
	// its neighbours, routes and filters.
	Timed bool `json:"timed,omitempty"`
}

const (
	// moves is how often a timed link is moved.
	moves = 3
	// carrierPause is the time between two checks for the carrier.
	carrierPause = 50 * time.Microsecond
	// negotiating is how long a real NIC may take to have its carrier.
	negotiating = 6 * time.Second
	// returning is how long to wait for a link of the machine: the kernel returns the links of an ended namespace in
	// the background. That takes time on a busy machine. If the step did not wait, the link would stay as the container
	// left it.
	returning = time.Second
	returned  = 3 * time.Second
)

// Kind returns "move-link".
func (MoveLink) Kind() string { return "move-link" }

// oldMoveLink is the former kind of [MoveLink]. Journals that an earlier build left may hold it, and 'nettoll clean'
// reads them.
const oldMoveLink = "plug"

// String describes the step in plain words.
func (p MoveLink) String() string {
	s := "move " + at(p.From, p.FromNS) + into(p.NS) + " as " + p.Name + traits("", p.MTU, p.Addresses)
	if p.Timed {
		s += ", timed"
	}
	return s
}

// UndoneFirst makes MoveLink a [FirstUndone]: a link that is still in a container when the container ends does not
// return to its former namespace.
func (MoveLink) UndoneFirst() {}

// Outlives returns UntilBoot for a NIC of the machine: it outlives the container.
func (p MoveLink) Outlives() Lifetime {
	if p.FromNS == Machine {
		return UntilBoot
	}
	return WithNamespaces
}

// movedFrom is what a [MoveLink] keeps about the link before it moves it.
type movedFrom struct {
	// MAC distinguishes the link from another one of the same name.
	MAC string `json:"mac"`
	MTU int    `json:"mtu"`
	Up  bool   `json:"up,omitempty"`
}

// is reports whether a link is the one that was moved.
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
	if p.Timed && p.FromNS != Machine { // a real NIC takes seconds to negotiate with the other end of its cable
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
		if !ready { // the other end may come later; Verify reports that
			k.Doubt("plug_time of %s was not measured: the link has no carrier after %v (see whether the other end is up)",
				p.From, p.patience())
			return nil
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	k.Metric("plug_time", times[len(times)/2].Seconds())
	return nil
}

// find reads the link in its former place, and refuses a link that is in use there.
func (p MoveLink) find(ctx context.Context, h *link.Handle) (link.Link, error) {
	l, err := p.await(ctx, h, returning)
	if err != nil || p.FromNS == "" { // links on the host were made for this
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

// await reads the link in its former place. A link of the machine may still be returning from a container that has
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

// move moves the link. If timed, it waits until packets can pass, and reports whether they can. If it fails, it leaves
// the link where moveBack finds it.
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
	l, err := inside.ByName(p.From) // another link can have its index there
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

// patience is how long to wait for the link.
func (p MoveLink) patience() time.Duration {
	if p.FromNS == Machine {
		return negotiating
	}
	return settle
}

// wait waits until packets can pass, and reports whether they can.
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

// Remove moves the link back. It succeeds if the link is gone. A NIC of the machine returns by itself when its
// container ends; Remove then restores its former settings.
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
		return ctx.Err() // it may still come
	}
	if errors.Is(err, link.ErrNotFound) || err == nil && !was.is(l) {
		return nil // the NIC was removed, and another link has its name
	}
	if err != nil {
		return err
	}
	return p.putBack(h, l, was)
}

// moveBack moves the link out of the container, if it is still there.
func (p MoveLink) moveBack(k *Kernel, was movedFrom) error {
	to, inside, stands, err := k.standing(p.NS)
	if !stands {
		return err
	}
	l, err := inside.ByName(p.Name)
	if errors.Is(err, link.ErrNotFound) || err == nil && !was.is(l) {
		l, err = inside.ByName(p.From) // the link was moved but not renamed
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

// putBack restores the link's former settings in its former place. An MTU that differs from the container's was set by
// somebody else since, and stays.
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

// Verify compares the link in its new place with the step. It waits for its carrier.
func (p MoveLink) Verify(k *Kernel) error {
	c := check{step: p}
	for deadline := time.Now().Add(p.patience() - settle); time.Now().Before(deadline) && p.waiting(k); {
		time.Sleep(pollPause)
	}
	return c.settled(k, p.Name, func() (running bool, err error) {
		err = c.link(k, p.NS, p.Name, func(l link.Link, h *link.Handle) error {
			running = l.Running
			c.equal(p.Name, up, state(l))
			return c.traits(k, h, l, "", p.MTU, p.Addresses)
		})
		if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
			return false, err
		}
		return running, nil
	})
}

// waiting reports whether the link exists and has no carrier yet.
func (p MoveLink) waiting(k *Kernel) bool {
	h, err := k.Links(p.NS)
	if err != nil {
		return false
	}
	l, err := h.ByName(p.Name)
	return err == nil && l.Up && !l.Running
}
