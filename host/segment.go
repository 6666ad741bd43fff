package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Segment extends a bridge to other hosts: a VXLAN device (RFC 7348) is one of its ports. The device is in the
// namespace of the bridge, and its packets leave by the host's own. Nothing is flooded to other hosts, and nothing is
// learned from them: the device has a permanent forwarding entry and permanent neighbour entries for each container of
// another host, and answers for it itself.
type Segment struct {
	// NS is the namespace of the bridge, Bridge its name, and Name that of the device.
	NS     string `json:"ns"`
	Bridge string `json:"bridge"`
	Name   string `json:"name"`
	// MAC is the address of the device; "" leaves it to who makes it.
	MAC string `json:"mac,omitempty"`
	// MTU in bytes.
	MTU int `json:"mtu"`
	// ID is the VXLAN network identifier; 0 leaves it to who makes the device. Port is its UDP port.
	ID   uint32 `json:"id,omitempty"`
	Port uint16 `json:"port"`
	// Hosts are the addresses of all hosts that have containers in the segment, and Local is that of this one, from which
	// the device sends. A host that is the only one has none.
	Hosts []string `json:"hosts,omitempty"`
	Local string   `json:"local,omitempty"`
	// Ranges are those of the containers of all hosts, in CIDR notation.
	Ranges []string `json:"ranges"`
	// Stations are the containers of other hosts.
	Stations []Station `json:"stations,omitempty"`
}

// A Station is the link of a container in a [Segment].
type Station struct {
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"`
	// At is the address of its host.
	At string `json:"at"`
}

// A Secluded is a step that has links in a namespace of the host which is not a container's.
type Secluded interface {
	Step
	// Seclusion returns the namespace.
	Seclusion() string
}

// Seclusion returns the namespace of the bridge.
func (g Segment) Seclusion() string { return g.NS }

// Kind returns "segment".
func (Segment) Kind() string { return "segment" }

// maxStations is how many stations a line shows.
const maxStations = 4

// String describes the step in plain words.
func (g Segment) String() string {
	s := fmt.Sprintf("vxlan %s%s, port %d, port of %s", at(g.Name, g.NS), traits(g.MAC, g.MTU, nil), g.Port, g.Bridge)
	if g.ID != 0 {
		s += fmt.Sprintf(", id %d", g.ID)
	}
	if g.Local != "" {
		s += ", from " + g.Local
	}
	for i, p := range g.Stations {
		if i == maxStations && len(g.Stations) > maxStations+1 {
			return s + fmt.Sprintf("; and %d more", len(g.Stations)-i)
		}
		s += fmt.Sprintf("; %s, %s at %s", strings.Join(p.Addresses, ", "), p.MAC, p.At)
	}
	return s
}

// segment is the step with its text read.
type segment struct {
	device     link.VXLAN
	entries    []link.FDBEntry
	neighbours []link.Neighbour
}

// making begins the name of the device before it is in its namespace: the host may have a link of its name.
const making = "new-"

// parse reads the text of the step.
func (g Segment) parse() (segment, error) {
	s := segment{device: link.VXLAN{Name: making + g.Name, MTU: g.MTU, ID: g.ID, Port: g.Port, Proxy: true}}
	var err error
	if s.device.MAC, err = parseMAC(g.MAC); err != nil {
		return s, err
	}
	if g.Local != "" {
		if s.device.Local, err = netip.ParseAddr(g.Local); err != nil {
			return s, fmt.Errorf("segment from %q: %w", g.Local, err)
		}
	}
	for _, p := range g.Stations {
		var e link.FDBEntry
		if e.MAC, err = parseMAC(p.MAC); err != nil {
			return s, err
		}
		if e.At, err = netip.ParseAddr(p.At); err != nil {
			return s, fmt.Errorf("segment: host of a container: %w", err)
		}
		s.entries = append(s.entries, e)
		for _, text := range p.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return s, fmt.Errorf("segment: address of a container: %w", err)
			}
			s.neighbours = append(s.neighbours, link.Neighbour{Address: a, MAC: e.MAC})
		}
	}
	return s, nil
}

// Apply makes the device, moves it into the namespace of the bridge, and adds its entries.
func (g Segment) Apply(ctx context.Context, k *Kernel) error {
	want, err := g.parse()
	if err != nil {
		return err
	}
	_, h, err := k.inside("")
	if err != nil {
		return err
	}
	to, inside, err := k.inside(g.NS)
	if err != nil {
		return err
	}
	index, err := h.AddVXLAN(want.device)
	if err != nil {
		return err
	}
	if err := h.Move(index, to.file); err != nil {
		return errors.Join(err, h.Delete(index))
	}
	l, err := inside.ByName(want.device.Name)
	if err != nil {
		return err
	}
	if err := inside.SetName(l.Index, g.Name); err != nil {
		return errors.Join(err, inside.Delete(l.Index))
	}
	return k.keepLink(ctx, to, l.Index, g.Name, func() error {
		if err := k.withIndex(to, inside, g.Bridge, func(bridge int) error {
			return inside.SetMaster(l.Index, bridge)
		}); err != nil {
			return err
		}
		if err := inside.SetUp(l.Index, true); err != nil {
			return err
		}
		for _, e := range want.entries {
			e.Link = l.Index
			if err := inside.AddFDBEntry(e); err != nil {
				return err
			}
		}
		for _, n := range want.neighbours {
			n.Link = l.Index
			if err := inside.SetNeighbour(n); err != nil {
				return err
			}
		}
		return nil
	})
}

// UndoneFirst makes Segment a [FirstUndone]: the kernel removes the device in the background if its namespace ends
// first, and until then the host can make no other one with its identifier.
func (Segment) UndoneFirst() {}

// Remove removes the device, and its entries with it.
func (g Segment) Remove(ctx context.Context, k *Kernel) error {
	return k.removeMade(ctx, g.NS, g.Name, "")
}

// Verify compares the device and all of its entries with the step.
func (g Segment) Verify(k *Kernel) error {
	found, err := g.read(k, g)
	if err != nil {
		return err
	}
	c, want := check{step: g}, found.want
	if g.MAC != "" {
		c.equal("mac of "+g.Name, want.device.MAC.String(), found.device.MAC.String())
	}
	c.equal("id of "+g.Name, strconv.Itoa(int(g.ID)), strconv.Itoa(int(found.device.ID)))
	c.equal("source address of "+g.Name, want.device.Local.String(), found.device.Local.String())
	c.equal("learning of "+g.Name, "false", strconv.FormatBool(found.device.Learning))
	c.equal("forwarding entries of "+g.Name, listed(want.entries), listed(found.entries))
	return c.err()
}

// Holds compares what somebody else has made for a step with the Segment, and returns its identifier. The device may
// learn, and may have further entries.
func (g Segment) Holds(k *Kernel, step Step) (id uint32, err error) {
	found, err := g.read(k, step)
	if err != nil {
		return 0, err
	}
	c := check{step: step}
	for _, e := range found.want.entries {
		if !slices.ContainsFunc(found.entries, func(o link.FDBEntry) bool { return o.String() == e.String() }) {
			c.equal("forwarding entry of "+g.Name, e.String(), absent)
		}
	}
	return found.device.ID, c.err()
}

// found is what stands of a segment.
type found struct {
	want    segment
	device  link.VXLAN
	entries []link.FDBEntry
}

// read reads the device, and compares what nobody leaves to others: that it is a port of the bridge, answers for other
// containers, and at which port it receives.
func (g Segment) read(k *Kernel, step Step) (f found, err error) {
	c := check{step: step}
	if f.want, err = g.parse(); err != nil {
		return f, err
	}
	return f, c.link(k, g.NS, g.Name, func(l link.Link, h *link.Handle) error {
		if c.equal("type of "+g.Name, "vxlan", l.Type); len(c.drifts) > 0 {
			return nil
		}
		c.equal(g.Name, up, state(l))
		master := "none"
		if l.Master != 0 {
			m, err := h.ByIndex(l.Master)
			if err != nil {
				return err
			}
			master = m.Name
		}
		c.equal("master of "+g.Name, g.Bridge, master)
		if f.device, err = h.VXLAN(g.Name); err != nil {
			return err
		}
		c.equal("mtu of "+g.Name, strconv.Itoa(g.MTU), strconv.Itoa(f.device.MTU))
		c.equal("port of "+g.Name, strconv.Itoa(int(g.Port)), strconv.Itoa(int(f.device.Port)))
		c.equal("answers of "+g.Name, "true", strconv.FormatBool(f.device.Proxy))
		if f.entries, err = h.FDB(l.Index); err != nil {
			return err
		}
		return k.Do(g.NS, func() error {
			for _, n := range f.want.neighbours {
				what := "neighbour " + n.Address.String() + " of " + g.Name
				got, err := link.StaticNeighbour(l.Index, n.Address, false)
				if errors.Is(err, link.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
					c.equal(what, n.MAC.String(), absent)
				} else if err != nil {
					return err
				} else {
					c.equal(what, n.MAC.String(), got.MAC.String())
				}
			}
			return nil
		})
	})
}

// listed says entries in an order that does not depend on the kernel.
func listed(entries []link.FDBEntry) string {
	text := make([]string, len(entries))
	for i, e := range entries {
		text[i] = e.String()
	}
	slices.Sort(text)
	return orNone(strings.Join(text, ", "))
}
