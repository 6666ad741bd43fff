package host

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// An Upper is a link on top of another one, such as a macvlan link. It is the base of steps that make such links: the
// step of a network adds the type of link. The link is made directly in its namespace and never moves.
type Upper struct {
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// Mode is a mode of links of the type.
	Mode string `json:"mode"`
	// LowerNS and Lower are the link below, which carries its packets.
	LowerNS string `json:"lower_ns,omitempty"`
	Lower   string `json:"lower"`
	// MAC is the address of the link; "" leaves it to the kernel.
	MAC string `json:"mac,omitempty"`
	// MTU in bytes; 0 leaves it to the kernel.
	MTU int `json:"mtu,omitempty"`
	// Addresses are in CIDR notation, of either family.
	Addresses []string `json:"addresses,omitempty"`
}

// Base returns the link. With it, a test finds the link of every step that is based on an Upper.
func (u Upper) Base() Upper { return u }

// String describes the link in plain words, without its type.
func (u Upper) String() string {
	return at(u.Name, u.NS) + traits(u.MAC, u.MTU, u.Addresses) + u.mode() + ", over " + at(u.Lower, u.LowerNS)
}

func (u Upper) mode() string {
	if u.Mode == "" {
		return ""
	}
	return ", mode " + u.Mode
}

// Make makes the link in its namespace. It calls add, which makes the link in the namespace that ns is open on, on the
// link with the index lower. If add fails, it must leave nothing behind; Make may call it again with another index.
func (u Upper) Make(
	ctx context.Context, k *Kernel, add func(h *link.Handle, ns *os.File, lower int, mac net.HardwareAddr) error,
) error {
	mac, err := parseMAC(u.MAC)
	if err != nil {
		return err
	}
	addresses, err := parseAddresses(u.Addresses)
	if err != nil {
		return err
	}
	s, h, err := k.inside(u.NS)
	if err != nil {
		return err
	}
	below, lowerH, err := k.inside(u.LowerNS)
	if err != nil {
		return err
	}
	if err := k.withIndex(below, lowerH, u.Lower, func(lower int) error {
		return add(lowerH, s.file, lower, mac)
	}); err != nil {
		return err
	}
	l, err := h.ByName(u.Name)
	if err != nil {
		return err
	}
	return k.keepLink(ctx, s, l.Index, u.Name, func() error { return addAddresses(h, l.Index, addresses) })
}

// Remove removes the link that Make has made.
func (u Upper) Remove(ctx context.Context, k *Kernel) error {
	return k.removeMade(ctx, u.NS, u.Name, "")
}

// Compare compares the link with a step that is based on it; kind is the type of the link in the kernel. It waits for
// the carrier, which comes after that of the link below.
func (u Upper) Compare(k *Kernel, step Step, kind string) error {
	c := check{step: step}
	return c.settled(k, u.Name, func() (bool, error) { return c.upper(k, u, kind) })
}

// upper compares a link on top of another one, and reports whether it runs.
func (c *check) upper(k *Kernel, u Upper, kind string) (running bool, err error) {
	lower := 0
	err = c.link(k, u.LowerNS, u.Lower, func(l link.Link, _ *link.Handle) error {
		lower = l.Index
		return nil
	})
	if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
		return false, err
	}
	err = c.link(k, u.NS, u.Name, func(l link.Link, h *link.Handle) error {
		running = l.Running
		c.equal("type of "+u.Name, kind, l.Type)
		c.equal(u.Name, up, state(l))
		c.equal("mode of "+u.Name, u.Mode, l.Mode)
		if lower != 0 {
			c.equal("index of the link below "+u.Name, strconv.Itoa(lower), strconv.Itoa(l.Lower))
		}
		return c.traits(k, h, l, u.MAC, u.MTU, u.Addresses)
	})
	if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
		return false, err
	}
	return running, nil
}
