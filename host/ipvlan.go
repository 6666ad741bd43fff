package host

import (
	"context"
	"errors"
	"strconv"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// An IPVlan makes an ipvlan link that is up. It makes the link directly in its namespace and never moves it. The link
// has the MAC address of the link below.
type IPVlan struct {
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
	// Mode selects where its packets are routed: "l2", "l3" or "l3s", as in ip-link(8). All ipvlan links on one link
	// have the same mode.
	Mode string `json:"mode"`
	// LowerNS and Lower are the link below, which carries its packets.
	LowerNS string `json:"lower_ns,omitempty"`
	Lower   string `json:"lower"`
	// MTU in bytes; 0 leaves it to the kernel.
	MTU int `json:"mtu,omitempty"`
	// Addresses are in CIDR notation, of either family. They are unique among the links on the link below.
	Addresses []string `json:"addresses,omitempty"`
}

// Kind returns "ipvlan".
func (IPVlan) Kind() string { return "ipvlan" }

// String describes the step in plain words.
func (i IPVlan) String() string {
	return "ipvlan " + at(i.Name, i.NS) + traits("", i.MTU, i.Addresses) + ", mode " + i.Mode + ", over " +
		at(i.Lower, i.LowerNS)
}

// Apply makes the link in its namespace.
func (i IPVlan) Apply(ctx context.Context, k *Kernel) error {
	addresses, err := parseAddresses(i.Addresses)
	if err != nil {
		return err
	}
	s, h, err := k.inside(i.NS)
	if err != nil {
		return err
	}
	below, lowerH, err := k.inside(i.LowerNS)
	if err != nil {
		return err
	}
	if err := k.withIndex(below, lowerH, i.Lower, func(lower int) error {
		return lowerH.AddIPVlan(link.IPVlan{Name: i.Name, NS: s.file, Lower: lower, Mode: i.Mode, MTU: i.MTU})
	}); err != nil {
		return err
	}
	l, err := h.ByName(i.Name)
	if err != nil {
		return err
	}
	return k.keepLink(ctx, s, l.Index, i.Name, func() error { return addAddresses(h, l.Index, addresses) })
}

// Remove removes the link.
func (i IPVlan) Remove(ctx context.Context, k *Kernel) error {
	return k.removeMade(ctx, i.NS, i.Name, "")
}

// Verify compares the link with the step. It waits for its carrier, which comes after that of the link below.
func (i IPVlan) Verify(k *Kernel) error {
	c := check{step: i}
	return c.settled(k, i.Name, func() (bool, error) {
		return c.above(k, stacked{"ipvlan", i.NS, i.Name, i.Mode, i.LowerNS, i.Lower, "", i.MTU, i.Addresses})
	})
}

// stacked is a link on top of another one.
type stacked struct {
	kind, ns, name, mode string
	lowerNS, lower       string
	mac                  string
	mtu                  int
	addresses            []string
}

// above compares a link on top of another one, and reports whether it runs.
func (c *check) above(k *Kernel, s stacked) (running bool, err error) {
	lower := 0
	err = c.link(k, s.lowerNS, s.lower, func(l link.Link, _ *link.Handle) error {
		lower = l.Index
		return nil
	})
	if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
		return false, err
	}
	err = c.link(k, s.ns, s.name, func(l link.Link, h *link.Handle) error {
		running = l.Running
		c.equal("type of "+s.name, s.kind, l.Type)
		c.equal(s.name, up, state(l))
		c.equal("mode of "+s.name, s.mode, l.Mode)
		if lower != 0 {
			c.equal("index of the link below "+s.name, strconv.Itoa(lower), strconv.Itoa(l.Lower))
		}
		return c.traits(h, l, s.mac, s.mtu, s.addresses)
	})
	if _, drift := errors.AsType[*DriftError](err); err != nil && !drift {
		return false, err
	}
	return running, nil
}
