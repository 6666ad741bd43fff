package link

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
)

// Traffic reads the counters of all links of the namespace (struct rtnl_link_stats64, include/uapi/linux/if_link.h).
func (h *Handle) Traffic() ([]Traffic, error) {
	links, err := dump.Whole(h.h.LinkList)
	if err != nil {
		return nil, explain("read the counters of links", err, "")
	}
	byIndex := map[int]netlink.Link{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l
	}
	list := make([]Traffic, len(links))
	for i, l := range links {
		a := l.Attrs()
		list[i].Name, list[i].Index = a.Name, a.Index
		if master := byIndex[a.MasterIndex]; a.MasterIndex != 0 && master != nil {
			list[i].Master, list[i].MasterType = master.Attrs().Name, master.Type()
		}
		if s := a.Statistics; s != nil {
			list[i].Received, list[i].Sent = s.RxPackets, s.TxPackets
			list[i].ReceivedBytes, list[i].SentBytes = s.RxBytes, s.TxBytes
			list[i].Dropped = s.RxDropped + s.RxMissedErrors + s.TxDropped
			if _, ok := l.(*netlink.Tuntap); ok {
				list[i].Unread = s.TxDropped
			}
		}
	}
	return list, nil
}

// Next asks the kernel for the next hop of packets from an address of the namespace to another address. An invalid from
// means any.
func (h *Handle) Next(from, to netip.Addr) (Next, error) {
	what := fmt.Sprintf("read how packets go to %q", to)
	options := &netlink.RouteGetOptions{}
	if from.IsValid() {
		options.SrcAddr = from.AsSlice()
	}
	routes, err := h.h.RouteGetWithOptions(to.AsSlice(), options)
	if err != nil {
		return Next{}, explain(what, err, "")
	}
	if len(routes) != 1 {
		return Next{}, fmt.Errorf("%s: %d routes", what, len(routes))
	}
	n := Next{Via: to}
	if via, ok := netip.AddrFromSlice(routes[0].Gw); ok {
		n.Via = via.Unmap()
	} else if routes[0].Via != nil {
		return Next{}, fmt.Errorf("%s: by a gateway of another family", what)
	}
	l, err := h.h.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return Next{}, explain(what, err, "")
	}
	n.Link = l.Attrs().Name
	if l.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
		return n, nil
	}
	n.MAC, err = h.neighbourMAC(routes[0].LinkIndex, n.Via)
	if err != nil {
		return Next{}, explain(what, err, "")
	}
	return n, nil
}

// neighbourMAC reads an entry of the neighbour table, learned or static; nil if there is none.
func (h *Handle) neighbourMAC(index int, a netip.Addr) (net.HardwareAddr, error) {
	req := askForNeighbour(index, a, false)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: h.strict}}
	found, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if absent(err) == unix.ESRCH { //nolint:errorlint // the library returns the number itself
		return nil, nil
	}
	if err != nil || len(found) != 1 {
		return nil, err
	}
	n, err := netlink.NeighDeserialize(found[0])
	if err != nil {
		return nil, err
	}
	return n.HardwareAddr, nil
}
