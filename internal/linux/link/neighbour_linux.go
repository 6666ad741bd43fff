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

// SetNeighbour makes a permanent entry. It replaces a learned one.
func (h *Handle) SetNeighbour(n Neighbour) error {
	return explain(fmt.Sprintf("make neighbour %q of link %d", n.Address, n.Link), h.h.NeighSet(neighbour(n)), "")
}

// DeleteNeighbour removes an entry. If it is already gone, the error is [ErrNotFound].
func (h *Handle) DeleteNeighbour(n Neighbour) error {
	what := fmt.Sprintf("remove neighbour %q of link %d", n.Address, n.Link)
	return explain(what, absent(h.h.NeighDel(neighbour(n))), "")
}

func neighbour(n Neighbour) *netlink.Neigh {
	r := &netlink.Neigh{LinkIndex: n.Link, IP: n.Address.AsSlice(), HardwareAddr: n.MAC, State: netlink.NUD_PERMANENT}
	if n.Proxy {
		r.Flags, r.HardwareAddr = netlink.NTF_PROXY, nil
	}
	return r
}

// StaticNeighbour reads a static (permanent) entry in the namespace of the calling thread. It opens a socket of its
// own: the library can only list all entries of a table, and a table can have thousands. The error is [ErrNotFound] if
// the entry does not exist or was learned.
func StaticNeighbour(index int, a netip.Addr, proxy bool) (Neighbour, error) {
	what := fmt.Sprintf("read neighbour %q of link %d", a, index)
	found, err := askForNeighbour(index, a, proxy).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil {
		return Neighbour{}, explain(what, absent(err), "")
	}
	if len(found) != 1 {
		return Neighbour{}, fmt.Errorf("%s: %d answers", what, len(found))
	}
	n, err := netlink.NeighDeserialize(found[0])
	if err != nil {
		return Neighbour{}, fmt.Errorf("%s: %w", what, err)
	}
	if !proxy && n.State&netlink.NUD_PERMANENT == 0 {
		return Neighbour{}, fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return Neighbour{Link: index, Address: a, MAC: n.HardwareAddr, Proxy: proxy}, nil
}

// Neighbours reads the entries of an address, learned ones too, on all links.
func (h *Handle) Neighbours(of netip.Addr) (list []Neighbour, err error) {
	family := unix.AF_INET
	if of.Is6() {
		family = unix.AF_INET6
	}
	found, err := dump.Whole(func() ([]netlink.Neigh, error) { return h.h.NeighList(0, family) })
	if err != nil {
		return nil, explain(fmt.Sprintf("read neighbours %q", of), err, "")
	}
	for _, n := range found {
		if a, _ := netip.AddrFromSlice(n.IP); a.Unmap() == of {
			list = append(list, Neighbour{Link: n.LinkIndex, Address: of, MAC: n.HardwareAddr})
		}
	}
	return list, nil
}

// Learned reads the entries of all links that the kernel has learned or tries to learn: neither permanent ones, nor
// those that need no resolution or that a program has learned.
func (h *Handle) Learned() (list []Neighbour, err error) {
	const given = netlink.NUD_PERMANENT | netlink.NUD_NOARP
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		found, err := dump.Whole(func() ([]netlink.Neigh, error) { return h.h.NeighList(0, family) })
		if err != nil {
			return nil, explain("read learned neighbours", err, "")
		}
		for _, n := range found {
			if a, ok := netip.AddrFromSlice(n.IP); ok && n.State&given == 0 && n.Flags&netlink.NTF_EXT_LEARNED == 0 {
				list = append(list, Neighbour{Link: n.LinkIndex, Address: a.Unmap(), MAC: n.HardwareAddr})
			}
		}
	}
	return list, nil
}

// Stations reads which MAC addresses a bridge knows at one of its ports, those of the port itself among them.
func (h *Handle) Stations(port int) (list []net.HardwareAddr, err error) {
	found, err := dump.Whole(func() ([]netlink.Neigh, error) { return h.h.NeighList(port, unix.AF_BRIDGE) })
	if err != nil {
		return nil, explain(fmt.Sprintf("read the stations at link %d", port), err, "")
	}
	for _, n := range found {
		if n.LinkIndex == port {
			list = append(list, n.HardwareAddr)
		}
	}
	return list, nil
}

// askForNeighbour asks for one entry.
func askForNeighbour(index int, a netip.Addr, proxy bool) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	msg := &netlink.Ndmsg{Family: unix.AF_INET, Index: uint32(index)}
	if a.Is6() {
		msg.Family = unix.AF_INET6
	}
	if proxy {
		msg.Flags = netlink.NTF_PROXY
	}
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, a.AsSlice()))
	return req
}

// absent converts the kernel's error about a missing neighbour (net/core/neighbour.c, neigh_get and neigh_delete).
func absent(err error) error {
	if err == unix.ENOENT { //nolint:errorlint // the library returns the number itself
		return unix.ESRCH
	}
	return err
}
