package link

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
)

// AddMultipath adds a route with several next hops of equal weight to the main table.
func (h *Handle) AddMultipath(to netip.Prefix, hops []Route) error {
	return explain("add route to "+to.String(), h.h.RouteAdd(multipath(to, hops)),
		"routes with several next hops (CONFIG_IP_ROUTE_MULTIPATH)")
}

// DeleteMultipath removes such a route. If it is already gone, the error is [ErrNotFound].
func (h *Handle) DeleteMultipath(to netip.Prefix, hops []Route) error {
	return explain("remove route to "+to.String(), h.h.RouteDel(multipath(to, hops)), "")
}

// Multipath reads the next hops of the routes of the main table to exactly this prefix.
func (h *Handle) Multipath(to netip.Prefix) ([]Route, error) {
	f := netlink.FAMILY_V4
	if to.Addr().Is6() {
		f = netlink.FAMILY_V6
	}
	found, err := dump.Whole(func() ([]netlink.Route, error) {
		return h.h.RouteListFiltered(f, &netlink.Route{Table: unix.RT_TABLE_MAIN, Dst: ipnet(to)},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
	})
	if err != nil {
		return nil, explain("read routes to "+to.String(), err, "")
	}
	var list []Route
	add := func(gw []byte, index int) {
		via, _ := netip.AddrFromSlice(gw)
		list = append(list, Route{To: to, Via: via.Unmap(), Link: index})
	}
	for _, r := range found {
		for _, n := range r.MultiPath {
			add(n.Gw, n.LinkIndex)
		}
		if len(r.MultiPath) == 0 {
			add(r.Gw, r.LinkIndex)
		}
	}
	return list, nil
}

func multipath(to netip.Prefix, hops []Route) *netlink.Route {
	n := &netlink.Route{Dst: ipnet(to.Masked()), Table: unix.RT_TABLE_MAIN}
	for _, r := range hops {
		n.MultiPath = append(n.MultiPath, &netlink.NexthopInfo{LinkIndex: r.Link, Gw: r.Via.AsSlice()})
	}
	return n
}
