package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Neighbour adds static neighbour entries for the addresses of a neighbour on a link. No address then has to be
// resolved, and the size of the neighbour table does not matter. With Proxy, it makes the host answer for the addresses
// instead. It removes learned entries for the addresses.
type Neighbour struct {
	NS string `json:"ns,omitempty"`
	// Dev is the name of the link.
	Dev string `json:"dev"`
	// Addresses are the addresses of the neighbour, of either family.
	Addresses []string `json:"addresses"`
	// At is the neighbour's MAC address; "" for Proxy. Within a plan it equals the MAC address of the neighbour's own
	// link.
	At string `json:"at,omitempty"`
	// Proxy makes the host answer for the addresses on this link.
	Proxy bool `json:"proxy,omitempty"`
}

// Kind returns "neighbour".
func (Neighbour) Kind() string { return "neighbour" }

// String describes the step in plain words.
func (n Neighbour) String() string {
	what := "neighbour " + strings.Join(n.Addresses, ", ") + " at " + n.At
	if n.Proxy {
		what = "answers for " + strings.Join(n.Addresses, ", ")
	}
	return what + " through " + n.Dev + in(n.NS)
}

// parse returns the entries, without their link.
func (n Neighbour) parse() ([]link.Neighbour, error) {
	mac, err := parseMAC(n.At)
	if err != nil {
		return nil, err
	}
	if n.Proxy == (mac != nil) {
		return nil, fmt.Errorf("neighbour through %q: exactly one of a MAC address (at) and proxy is required", n.Dev)
	}
	entries := make([]link.Neighbour, len(n.Addresses))
	for i, text := range n.Addresses {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("invalid neighbour address %q (valid: such as 10.1.0.1)", text)
		}
		entries[i] = link.Neighbour{Address: a, MAC: mac, Proxy: n.Proxy}
	}
	return entries, nil
}

// Apply makes the entries.
func (n Neighbour) Apply(_ context.Context, k *Kernel) error {
	entries, err := n.parse()
	if err != nil {
		return err
	}
	s, h, err := k.inside(n.NS)
	if err != nil {
		return err
	}
	return k.withIndex(s, h, n.Dev, func(index int) error {
		for i := range entries {
			entries[i].Link = index
			if err := h.SetNeighbour(entries[i]); err != nil {
				return errors.Join(err, forgetNeighbours(h, entries[:i]))
			}
		}
		return nil
	})
}

// Remove deletes the entries. If the link is gone, so are the entries.
func (n Neighbour) Remove(_ context.Context, k *Kernel) error {
	entries, err := n.parse()
	if err != nil {
		return err
	}
	_, h, stands, err := k.standing(n.NS)
	if !stands {
		return err
	}
	l, err := h.ByName(n.Dev)
	if errors.Is(err, link.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].Link = l.Index
	}
	return forgetNeighbours(h, entries)
}

func forgetNeighbours(h *link.Handle, entries []link.Neighbour) error {
	var errs []error
	for _, e := range entries {
		if err := h.DeleteNeighbour(e); err != nil && !errors.Is(err, link.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Verify compares the entries with the step.
func (n Neighbour) Verify(k *Kernel) error {
	c := check{step: n}
	entries, err := n.parse()
	if err != nil {
		return err
	}
	return c.link(k, n.NS, n.Dev, func(l link.Link, _ *link.Handle) error {
		return k.Do(n.NS, func() error {
			for _, e := range entries {
				got, err := link.StaticNeighbour(l.Index, e.Address, e.Proxy)
				what := "neighbour " + e.Address.String() + " of " + n.Dev
				if errors.Is(err, link.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
					c.equal(what, present, absent)
				} else if err != nil {
					return err
				} else if !n.Proxy {
					c.equal(what, e.MAC.String(), got.MAC.String())
				}
			}
			return nil
		})
	})
}
