package link

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/dump"
)

// Move moves a link to another namespace. The link is down there, and has lost its addresses and routes.
func (h *Handle) Move(index int, ns *os.File) error {
	return explain(fmt.Sprintf("move link %d", index), h.h.LinkSetNsFd(by(index), int(ns.Fd())), "")
}

// SetMaster makes a link a port of a bridge.
func (h *Handle) SetMaster(index, master int) error {
	return explain(fmt.Sprintf("make link %d a port of link %d", index, master),
		h.h.LinkSetMasterByIndex(by(index), master), "")
}

// SetName changes the name of a link that is down.
func (h *Handle) SetName(index int, name string) error {
	what := fmt.Sprintf("call link %d %q", index, name)
	if err := checkName(name); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return explain(what, h.h.LinkSetName(by(index), name), "")
}

// InUse returns what a link is needed for in its namespace; "" if it is not needed and could be moved.
func (h *Handle) InUse(name string) (string, error) {
	u, err := h.uses()
	if err != nil {
		return "", err
	}
	for _, l := range u.links {
		if l.Attrs().Name == name {
			return u.of(l), nil
		}
	}
	return "", fmt.Errorf("read link %q: %w", name, ErrNotFound)
}

// Spare returns, as a [linux.UnsupportedError], why a link of the namespace cannot be given to a container: it does not
// exist, it is needed, or it would be lost. The kernel removes a virtual link with the last namespace to which it was
// moved, and returns any other link to the machine's first namespace (net/core/dev.c, default_device_exit_net).
func (h *Handle) Spare(name string) error {
	u, err := h.uses()
	if err != nil {
		return err
	}
	var spare []string
	why := "no such link"
	for _, l := range u.links {
		reason := u.of(l)
		if reason == "" && l.Type() != physical {
			reason = fmt.Sprintf("it is virtual (%s), and would be lost if nettoll was killed", l.Type())
		}
		switch {
		case l.Attrs().Name == name && reason == "":
			return nil
		case l.Attrs().Name == name:
			why = reason
		case reason == "":
			spare = append(spare, l.Attrs().Name)
		}
	}
	slices.Sort(spare)
	hint := "to be spared here: " + strings.Join(spare, ", ")
	if len(spare) == 0 {
		hint = "this machine has none to spare"
	}
	return &linux.UnsupportedError{
		What: fmt.Sprintf("give NIC %q to a container (%s)", name, why), Missing: "a NIC to spare", Hint: hint,
	}
}

// physical is the library's name for the type of links without a kind.
const physical = "device"

// uses holds what the links of a namespace are needed for.
type uses struct {
	links     []netlink.Link
	addresses map[int]netip.Prefix // by index: one address of each link that is not of link scope
	ways      map[int]bool         // by index: default routes
}

func (h *Handle) uses() (uses, error) {
	u := uses{addresses: map[int]netip.Prefix{}, ways: map[int]bool{}}
	var err error
	if u.links, err = dump.Whole(h.h.LinkList); err != nil {
		return u, explain("list links", err, "")
	}
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return h.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return u, explain("list addresses", err, "")
	}
	for _, a := range addresses {
		if p := prefix(a.IPNet); !p.Addr().IsLinkLocalUnicast() {
			u.addresses[a.LinkIndex] = p
		}
	}
	routes, err := dump.Whole(func() ([]netlink.Route, error) {
		return h.h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return u, explain("list routes", err, "")
	}
	for _, r := range routes {
		if to := prefix(r.Dst); r.Type != unix.RTN_UNICAST || to.IsValid() && to.Bits() > 0 {
			continue
		}
		if r.LinkIndex != 0 {
			u.ways[r.LinkIndex] = true
		}
		for _, hop := range r.MultiPath {
			u.ways[hop.LinkIndex] = true
		}
	}
	return u, nil
}

func (u uses) of(l netlink.Link) string {
	a := l.Attrs()
	switch {
	case a.Flags&net.FlagLoopback != 0:
		return "it is the loopback link"
	case u.ways[a.Index] && len(u.ways) == 1:
		return "it is the machine's only way out: the default route goes through it"
	case u.ways[a.Index]:
		return "a default route goes through it"
	case u.addresses[a.Index].IsValid():
		return fmt.Sprintf("it has the address %s", u.addresses[a.Index])
	case a.MasterIndex != 0:
		return fmt.Sprintf("it is a port of link %d", a.MasterIndex)
	}
	for _, other := range u.links {
		if o := other.Attrs(); o.ParentIndex == a.Index && o.NetNsID < 0 && other.Type() != "veth" {
			return fmt.Sprintf("%q stands on it", o.Name)
		}
	}
	return ""
}
