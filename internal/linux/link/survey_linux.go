package link

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
)

// Survey reads all links of the namespace with their addresses, and all routes except those to the namespace itself.
func (h *Handle) Survey() (Survey, error) {
	links, err := dump.Whole(h.h.LinkList)
	if err != nil {
		return Survey{}, explain("list links", err, "")
	}
	found, err := dump.Whole(func() ([]netlink.Addr, error) { return h.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return Survey{}, explain("list addresses", err, "")
	}
	addresses := map[int][]netip.Prefix{}
	for _, a := range found {
		if p := prefix(a.IPNet); !p.Addr().Is6() || !p.Addr().IsLinkLocalUnicast() {
			addresses[a.LinkIndex] = append(addresses[a.LinkIndex], p)
		}
	}
	var s Survey
	for _, l := range links {
		a := l.Attrs()
		s.Links = append(s.Links, Surveyed{
			Link: read(l), Other: a.ParentIndex, There: a.NetNsID, Addresses: addresses[a.Index],
		})
	}
	s.Routes, err = h.routes()
	return s, err
}

// routes reads all routes except the table of local addresses, and the links' own IPv6 routes.
func (h *Handle) routes() ([]SurveyedRoute, error) {
	found, err := dump.Whole(func() ([]netlink.Route, error) {
		return h.h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, explain("list routes", err, "")
	}
	var routes []SurveyedRoute
	for _, r := range found {
		one := SurveyedRoute{Route: Route{Link: r.LinkIndex}, Table: r.Table, Kind: r.Type}
		if r.Dst != nil {
			one.To = netip.PrefixFrom(prefix(r.Dst).Addr().Unmap(), bits(r.Dst))
		}
		one.Via, _ = netip.AddrFromSlice(r.Gw)
		one.Via = one.Via.Unmap()
		if !one.To.IsValid() {
			one.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			if r.Family == netlink.FAMILY_V6 {
				one.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			}
		}
		if to := one.To.Addr(); r.Table == unix.RT_TABLE_LOCAL || to.Is6() && (to.IsLinkLocalUnicast() || to.IsMulticast()) {
			continue
		}
		if r.Table == unix.RT_TABLE_MAIN {
			one.Table = 0
		}
		for _, n := range r.MultiPath { // each next hop is a route of its own
			each := one
			via, _ := netip.AddrFromSlice(n.Gw)
			each.Via, each.Link = via.Unmap(), n.LinkIndex
			routes = append(routes, each)
		}
		if len(r.MultiPath) == 0 {
			routes = append(routes, one)
		}
	}
	slices.SortStableFunc(routes, func(a, b SurveyedRoute) int {
		return cmp.Or(cmp.Compare(a.To.Addr().BitLen(), b.To.Addr().BitLen()), cmp.Compare(a.To.Bits(), b.To.Bits()),
			a.To.Addr().Compare(b.To.Addr()))
	})
	return routes, nil
}

// bits returns the length of a prefix. The library writes the IPv4 default route with an address of 16 bytes and a mask
// of 4.
func bits(n *net.IPNet) int {
	ones, _ := n.Mask.Size()
	return ones
}

// ID returns this namespace's id for another one, see [Surveyed.There]; -1 if it has none.
func (h *Handle) ID(other *os.File) (int, error) {
	id, err := h.h.GetNetNsIdByFd(int(other.Fd()))
	return id, explain("read the number of a namespace", err, "")
}

// Isolated says whether a link is a port of a bridge that passes nothing to other such ports (BR_ISOLATED,
// net/bridge/br_forward.c).
func (h *Handle) Isolated(index int) (bool, error) {
	l, err := h.ByIndex(index)
	if err != nil || l.Master == 0 {
		return false, err
	}
	if of, err := h.ByIndex(l.Master); err != nil || of.Type != "bridge" {
		return false, err
	}
	port, err := h.h.LinkGetProtinfo(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}})
	if err != nil {
		return false, explain("read what a bridge has of its port", err, "")
	}
	return port.Isolated, nil
}
