package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// check collects the differences from a step.
type check struct {
	step   Step
	drifts []linux.Difference
}

func (c *check) equal(what, want, got string) {
	if want != got {
		c.drifts = append(c.drifts, linux.Difference{What: what, Want: want, Got: got})
	}
}

func (c *check) err() error {
	if len(c.drifts) == 0 {
		return nil
	}
	return &DriftError{Step: c.step.String(), Drifts: c.drifts}
}

const (
	present = "present"
	absent  = "absent"
	up      = "up"
	down    = "down"
)

// Verify checks that the namespace exists in its place, and that its loopback link is up.
func (n Namespace) Verify(k *Kernel) error {
	c := check{step: n}
	k.mu.Lock()
	s := k.spaces[n.Name]
	k.mu.Unlock()
	if s == nil {
		c.equal("namespace "+n.Name, present, absent)
		return c.err()
	}
	stands, err := netns.Open(k.Path(n.Name))
	if err != nil {
		c.equal("namespace at "+k.Path(n.Name), present, absent)
		return c.err()
	}
	defer stands.Close()
	same, err := netns.Same(s.file, stands)
	if err != nil {
		return err
	}
	if !same {
		c.equal("namespace at "+k.Path(n.Name), "the one that was made", "another")
		return c.err()
	}
	return c.link(k, n.Name, "lo", func(l link.Link, _ *link.Handle) error {
		c.equal("lo", up, state(l))
		return nil
	})
}

// Verify compares the bridge with the step.
func (b Bridge) Verify(k *Kernel) error {
	c := check{step: b}
	return c.link(k, b.NS, b.Name, func(l link.Link, h *link.Handle) error {
		c.equal("type of "+b.Name, "bridge", l.Type)
		c.equal(b.Name, up, state(l))
		c.equal("multicast snooping of "+b.Name, strconv.FormatBool(b.Snooping), strconv.FormatBool(l.Snooping))
		return c.traits(k, h, l, b.MAC, b.MTU, b.Addresses)
	})
}

// settle is how long to wait for the carrier of a link that is up, and for its IPv6 addresses to be usable. The kernel
// does both from a work queue, with the lock that all changes of links share (net/core/link_watch.c,
// net/ipv6/addrconf.c). That takes milliseconds, and seconds while many namespaces end on a busy machine. Until then,
// packets are dropped.
const settle = 4 * time.Second

// Verify compares both ends with the step. It waits for their carrier, so that a packet sent afterwards is not lost.
func (v Veth) Verify(k *Kernel) error {
	c := check{step: v}
	return c.settled(k, v.Name, func() (bool, error) { return v.read(k, &c) })
}

// settled calls read until the link runs or something differs. If it has waited for a link without success, it does not
// wait for others until one runs: hundreds of links may get their carrier from the same link below.
func (c *check) settled(k *Kernel, name string, read func() (running bool, err error)) error {
	deadline := time.Now()
	if !k.hasty() {
		deadline = deadline.Add(settle)
	}
	for {
		running, err := read()
		if err != nil {
			return err
		}
		if len(c.drifts) > 0 || running {
			if running && len(c.drifts) == 0 {
				k.hurry(false)
			}
			return c.err()
		}
		if time.Now().After(deadline) {
			k.hurry(true)
			c.equal("carrier of "+name, present, absent)
			return c.err()
		}
		time.Sleep(pollPause)
	}
}

// switched is the type of the master of ports of an Open vSwitch in the kernel: the datapath's link, not a bridge
// (net/openvswitch/vport-internal_dev.c).
const switched = "openvswitch"

func (v Veth) read(k *Kernel, c *check) (running bool, err error) {
	var near, far link.Link
	err = c.link(k, v.NS, v.Name, func(l link.Link, h *link.Handle) error {
		near = l
		c.equal("type of "+v.Name, "veth", l.Type)
		c.equal(v.Name, up, state(l))
		master := ""
		if l.Master != 0 {
			m, err := h.ByIndex(l.Master)
			if err != nil {
				return err
			}
			if m.Type != switched {
				master = m.Name
			}
		}
		c.equal("master of "+v.Name, orNone(v.Master), orNone(master))
		return c.traits(k, h, l, v.MAC, v.MTU, v.Addresses)
	})
	if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
		return false, err
	}
	if v.PeerMoves {
		return near.Running, nil
	}
	err = c.link(k, v.PeerNS, v.PeerName, func(l link.Link, h *link.Handle) error {
		far = l
		c.equal("type of "+v.PeerName, "veth", l.Type)
		c.equal(v.PeerName, up, state(l))
		return c.traits(k, h, l, v.PeerMAC, v.MTU, v.PeerAddresses)
	})
	if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
		return false, err
	}
	if len(c.drifts) == 0 && near.Peer != far.Index {
		c.equal("peer of "+v.Name, fmt.Sprintf("%s (link %d)", v.PeerName, far.Index), fmt.Sprintf("link %d", near.Peer))
	}
	return near.Running && far.Running, nil
}

// Verify compares the link with the step.
func (l Link) Verify(k *Kernel) error {
	c := check{step: l}
	return c.link(k, l.NS, l.Name, func(got link.Link, h *link.Handle) error {
		if l.Up {
			c.equal(l.Name, up, state(got))
		}
		return c.traits(k, h, got, l.MAC, l.MTU, l.Addresses)
	})
}

// Verify looks for the route in the main table.
func (r Route) Verify(k *Kernel) error {
	c := check{step: r}
	_, h, err := k.inside(r.NS)
	if err != nil {
		return err
	}
	want, err := r.parse()
	if err != nil {
		return err
	}
	if r.Dev != "" {
		l, err := h.ByName(r.Dev)
		if errors.Is(err, link.ErrNotFound) {
			c.equal("link "+r.Dev, present, absent)
			return c.err()
		}
		if err != nil {
			return err
		}
		want.Link = l.Index
	}
	read := h.Routes
	if want.Encap != (link.Encap{}) {
		read = h.EncapRoutes
	}
	found, err := read(want.To)
	if err != nil {
		return err
	}
	var got []string
	for _, f := range found {
		if f.Via == want.Via && (want.Link == 0 || f.Link == want.Link) && f.Encap == want.Encap {
			return nil
		}
		got = append(got, describe(h, f))
	}
	if len(got) == 0 {
		got = []string{absent}
	}
	c.equal("route to "+r.To, describe(h, want), strings.Join(got, " and "))
	return c.err()
}

func describe(h *link.Handle, r link.Route) string {
	var parts []string
	if r.Via.IsValid() {
		parts = append(parts, "via "+r.Via.String())
	}
	if r.Link != 0 {
		name := fmt.Sprintf("link %d", r.Link)
		if l, err := h.ByIndex(r.Link); err == nil {
			name = l.Name
		}
		parts = append(parts, "through "+name)
	}
	if r.Encap != (link.Encap{}) {
		parts = append(parts, r.Encap.String())
	}
	return strings.Join(parts, " ")
}

// Verify compares the variable with the step. A variable that the step has found must still be there.
func (s Sysctl) Verify(k *Kernel) error {
	c := check{step: s}
	found, err := k.Kept(&sysctlWas{})
	if err != nil {
		return err
	}
	var got string
	err = k.Do(s.NS, func() (err error) {
		got, err = sysctl.Read(s.Key)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.IfPresent && !found:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		got = absent
	case err != nil:
		return err
	}
	c.equal(s.Key, sysctl.Normal(s.Value), got)
	return c.err()
}

// link reads a link and compares it with f; a missing link is a difference of its own.
func (c *check) link(k *Kernel, ns, name string, f func(link.Link, *link.Handle) error) error {
	_, h, err := k.inside(ns)
	if errors.Is(err, fs.ErrNotExist) {
		c.equal("namespace "+ns, present, absent)
		return c.err()
	}
	if err != nil {
		return err
	}
	l, err := h.ByName(name)
	if errors.Is(err, link.ErrNotFound) {
		c.equal("link "+at(name, ns), present, absent)
		return c.err()
	}
	if err != nil {
		return err
	}
	if err := f(l, h); err != nil {
		return err
	}
	return c.err()
}

// traits compares what all kinds of links have in common. Any value agrees with what the step leaves to the kernel.
func (c *check) traits(k *Kernel, h *link.Handle, l link.Link, mac string, mtu int, addresses []string) error {
	if mac != "" {
		want, err := parseMAC(mac)
		if err != nil {
			return err
		}
		c.equal("mac of "+l.Name, want.String(), l.MAC.String())
	}
	if mtu != 0 {
		c.equal("mtu of "+l.Name, strconv.Itoa(mtu), strconv.Itoa(l.MTU))
	}
	if len(addresses) == 0 {
		return nil
	}
	want, err := parseAddresses(addresses)
	if err != nil {
		return err
	}
	got, err := h.Addresses(l.Index)
	if err != nil {
		return err
	}
	for _, a := range want {
		if !slices.Contains(got, a) {
			c.equal("address "+a.String()+" of "+l.Name, present, instead(a, got))
		} else if l.Up && len(c.drifts) == 0 {
			if err := c.local(k, h, a.Addr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// local waits until packets to an address of a link that is up are accepted, as [check.settled] waits for a link.
func (c *check) local(k *Kernel, h *link.Handle, a netip.Addr) error {
	deadline := time.Now()
	if !k.hasty() {
		deadline = deadline.Add(settle)
	}
	for ; ; time.Sleep(pollPause) {
		if local, err := h.Local(a); err != nil || local {
			return err
		}
		if time.Now().After(deadline) {
			k.hurry(true)
			c.equal("local route to "+a.String(), present, absent)
			return nil
		}
	}
}

// instead lists the existing addresses of the family.
func instead(a netip.Prefix, got []netip.Prefix) string {
	var others []string
	for _, g := range got {
		if g.Addr().Is4() == a.Addr().Is4() && !g.Addr().IsLinkLocalUnicast() {
			others = append(others, g.String())
		}
	}
	if len(others) == 0 {
		return absent
	}
	return absent + " (there is " + strings.Join(others, ", ") + ")"
}

func state(l link.Link) string {
	if l.Up {
		return up
	}
	return down
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
