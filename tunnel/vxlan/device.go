package vxlan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Device makes a VXLAN device in the host's own namespace, with permanent forwarding entries for its peers. It is
// still down.
type Device struct {
	Name string `json:"name"`
	MAC  string `json:"mac"`
	MTU  int    `json:"mtu"`
	// ID is the VXLAN network identifier, Local the source address of its packets. An external device has neither.
	ID    uint32 `json:"id,omitempty"`
	Local string `json:"local,omitempty"`
	// Port is the UDP port that it receives at and sends to.
	Port uint16 `json:"port"`
	// Checksum lets its packets have a UDP checksum. The routes say that of an external device.
	Checksum bool `json:"checksum,omitempty"`
	// External lets routes say where packets go.
	External bool   `json:"external,omitempty"`
	Peers    []Peer `json:"peers,omitempty"`
}

// A Peer is the device of another host.
type Peer struct {
	MAC string `json:"mac"`
	// At is the address of the host.
	At string `json:"at"`
}

// Kind returns "vxlan".
func (Device) Kind() string { return "vxlan" }

// String says the step as a person would.
func (d Device) String() string {
	s := fmt.Sprintf("vxlan %s, mac %s, mtu %d, port %d", d.Name, d.MAC, d.MTU, d.Port)
	if d.External {
		return s + ", external"
	}
	s += fmt.Sprintf(", id %d, from %s", d.ID, d.Local)
	if d.Checksum {
		s += ", with checksum"
	}
	for i, p := range d.Peers {
		if i == maxPeers && len(d.Peers) > maxPeers+1 {
			return s + fmt.Sprintf("; and %d more", len(d.Peers)-i)
		}
		s += fmt.Sprintf("; %s at %s", p.MAC, p.At)
	}
	return s
}

// maxPeers is how many peers a line shows.
const maxPeers = 4

// parse turns the text of the step into addresses.
func (d Device) parse() (link.VXLAN, []link.FDBEntry, error) {
	v := link.VXLAN{Name: d.Name, MTU: d.MTU, ID: d.ID, Port: d.Port, Checksum: d.Checksum, External: d.External}
	var err error
	if v.MAC, err = net.ParseMAC(d.MAC); err != nil {
		return v, nil, fmt.Errorf("vxlan %q: %w", d.Name, err)
	}
	if d.External != (d.Local == "") {
		return v, nil, fmt.Errorf("vxlan %q: a source address %q, and external %t: want one of them", d.Name, d.Local,
			d.External)
	}
	if !d.External {
		if v.Local, err = netip.ParseAddr(d.Local); err != nil {
			return v, nil, fmt.Errorf("vxlan %q: %w", d.Name, err)
		}
	}
	var entries []link.FDBEntry
	for _, p := range d.Peers {
		var e link.FDBEntry
		if e.MAC, err = net.ParseMAC(p.MAC); err != nil {
			return v, nil, fmt.Errorf("vxlan %q: peer: %w", d.Name, err)
		}
		if e.At, err = netip.ParseAddr(p.At); err != nil {
			return v, nil, fmt.Errorf("vxlan %q: peer: %w", d.Name, err)
		}
		entries = append(entries, e)
	}
	return v, entries, nil
}

// Apply makes the device and its entries.
func (d Device) Apply(ctx context.Context, k *host.Kernel) error {
	v, entries, err := d.parse()
	if err != nil {
		return err
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	index, err := h.AddVXLAN(v)
	if err != nil {
		return err
	}
	err = k.Keep(host.Made{Index: index})
	for _, e := range entries {
		if err == nil {
			e.Link = index
			err = h.AddFDBEntry(e)
		}
	}
	if err != nil {
		return errors.Join(err, host.Made{Index: index}.Remove(ctx, k, "", d.Name, ""))
	}
	return nil
}

// Remove removes the device, and its entries with it.
func (d Device) Remove(ctx context.Context, k *host.Kernel) error {
	var made host.Made
	if ok, err := k.Kept(&made); !ok {
		return err
	}
	return made.Remove(ctx, k, "", d.Name, "")
}

// Verify reads the device and all of its entries back.
func (d Device) Verify(k *host.Kernel) error {
	want, entries, err := d.parse()
	if err != nil {
		return err
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	drift := &host.DriftError{Step: d.String()}
	differ := func(what, want, got string) {
		if want != got {
			drift.Drifts = append(drift.Drifts, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	l, err := h.ByName(d.Name)
	if errors.Is(err, link.ErrNotFound) {
		differ("link "+d.Name, linux.Present, linux.Absent)
		return drift
	}
	if err != nil {
		return err
	}
	if differ("type of "+d.Name, "vxlan", l.Type); len(drift.Drifts) > 0 {
		return drift
	}
	got, err := h.VXLAN(d.Name)
	if err != nil {
		return err
	}
	for _, c := range []struct{ what, want, got string }{
		{"mac", want.MAC.String(), got.MAC.String()},
		{"mtu", fmt.Sprint(want.MTU), fmt.Sprint(got.MTU)},
		{"id", fmt.Sprint(want.ID), fmt.Sprint(got.ID)},
		{"port", fmt.Sprint(want.Port), fmt.Sprint(got.Port)},
		{"source address", want.Local.String(), got.Local.String()},
		{"external", fmt.Sprint(want.External), fmt.Sprint(got.External)},
		{"learning", fmt.Sprint(want.Learning), fmt.Sprint(got.Learning)},
	} {
		differ(c.what+" of "+d.Name, c.want, c.got)
	}
	if !d.External { // otherwise routes say that
		differ("checksum of "+d.Name, fmt.Sprint(want.Checksum), fmt.Sprint(got.Checksum))
	}
	found, err := h.FDB(l.Index)
	if err != nil {
		return err
	}
	differ("forwarding entries of "+d.Name, list(entries), list(found))
	if len(drift.Drifts) > 0 {
		return drift
	}
	return nil
}

// list says entries in an order that does not depend on the kernel.
func list(entries []link.FDBEntry) string {
	if len(entries) == 0 {
		return "none"
	}
	text := make([]string, len(entries))
	for i, e := range entries {
		text[i] = e.String()
	}
	slices.Sort(text)
	return strings.Join(text, ", ")
}
