package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

// A Multipath adds a route with several next hops of equal cost to the main table. fib_multipath_hash_policy decides
// which of them a flow takes (Documentation/networking/ip-sysctl.rst).
type Multipath struct {
	NS string `json:"ns,omitempty"`
	// To is a prefix in CIDR notation.
	To string `json:"to"`
	// Hops are the next hops, two or more.
	Hops []NextHop `json:"hops"`
}

// A NextHop is one next hop of a [Multipath].
type NextHop struct {
	// Via is the address of the gateway.
	Via string `json:"via"`
	// Dev is the name of the link.
	Dev string `json:"dev"`
}

// Kind returns "multipath".
func (Multipath) Kind() string { return "multipath" }

// String describes the step in plain words.
func (m Multipath) String() string {
	list := make([]string, len(m.Hops))
	for i, h := range m.Hops {
		list[i] = "via " + h.Via + " through " + h.Dev
	}
	return "route to " + m.To + " " + strings.Join(list, " or ") + in(m.NS)
}

// Check returns an error if this kernel has no such routes. It changes nothing.
func (Multipath) Check() error {
	_, err := sysctl.Read("net.ipv4.fib_multipath_hash_fields") // exists where such routes do: net/ipv4/sysctl_net_ipv4.c
	if errors.Is(err, fs.ErrNotExist) {
		return &linux.UnsupportedError{
			What: "spread flows over several paths", Missing: "CONFIG_IP_ROUTE_MULTIPATH",
			Hint: "use another kernel, or underlay.paths=1",
		}
	}
	return err
}

// Apply adds the route.
func (m Multipath) Apply(_ context.Context, k *Kernel) error {
	_, h, err := k.inside(m.NS)
	if err != nil {
		return err
	}
	to, hops, err := m.parse(h)
	if err != nil {
		return err
	}
	return h.AddMultipath(to, hops)
}

// Remove deletes the route. If its links are gone, so is the route.
func (m Multipath) Remove(_ context.Context, k *Kernel) error {
	_, h, stands, err := k.standing(m.NS)
	if !stands {
		return err
	}
	to, hops, err := m.parse(h)
	if err == nil {
		err = h.DeleteMultipath(to, hops)
	}
	if errors.Is(err, link.ErrNotFound) {
		return nil
	}
	return err
}

// parse converts the text of the step into a route with the existing links.
func (m Multipath) parse(h *link.Handle) (to netip.Prefix, hops []link.Route, err error) {
	if to, err = netip.ParsePrefix(m.To); err != nil {
		return to, nil, fmt.Errorf("route to %q: %w", m.To, err)
	}
	for _, n := range m.Hops {
		via, err := netip.ParseAddr(n.Via)
		if err != nil {
			return to, nil, fmt.Errorf("route via %q: %w", n.Via, err)
		}
		l, err := h.ByName(n.Dev)
		if err != nil {
			return to, nil, err
		}
		hops = append(hops, link.Route{To: to.Masked(), Via: via, Link: l.Index})
	}
	return to.Masked(), hops, nil
}

// Verify compares the route with the step, with all of its next hops.
func (m Multipath) Verify(k *Kernel) error {
	c := check{step: m}
	_, h, err := k.inside(m.NS)
	if err != nil {
		return err
	}
	to, want, err := m.parse(h)
	if errors.Is(err, link.ErrNotFound) {
		c.equal("links of the route to "+m.To, present, absent)
		return c.err()
	}
	if err != nil {
		return err
	}
	got, err := h.Multipath(to)
	if err != nil {
		return err
	}
	text := func(list []link.Route) string {
		if len(list) == 0 {
			return absent
		}
		texts := make([]string, len(list))
		for i, r := range list {
			texts[i] = describe(h, r)
		}
		slices.Sort(texts)
		return strings.Join(texts, " or ")
	}
	c.equal("route to "+m.To, text(want), text(got))
	return c.err()
}
