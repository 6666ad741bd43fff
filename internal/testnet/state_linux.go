package testnet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
)

// State describes the network namespace of the calling thread, so that later states can be compared with it. It
// includes links with their settings, addresses, routes, permanent and proxy neighbours, and programs hooked to links.
// It leaves out what the kernel itself adds and removes in the meantime, such as addresses of link scope, and numbers
// that are never reused.
func State() (map[string]string, error) {
	state := map[string]string{}
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, l := range links {
		a := l.Attrs()
		text := []string{
			l.Type(), a.HardwareAddr.String(), fmt.Sprintf("mtu %d", a.MTU), fmt.Sprintf("queue of %d", a.TxQLen),
			fmt.Sprintf("up %t", a.Flags&net.FlagUp != 0), fmt.Sprintf("master %q", names[a.MasterIndex]),
		}
		qdiscs, err := dump.Whole(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(l) })
		if err != nil {
			return nil, err
		}
		for _, q := range qdiscs {
			if q.Attrs().Handle != 0 { // the default has none: a link gets a handle when it is first set up, and keeps it
				text = append(text, q.Type())
			}
		}
		if a.Xdp != nil && a.Xdp.Attached {
			text = append(text, "xdp")
		}
		for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress, ebpf.AttachNetkitPeer} {
			r, err := ebpflink.QueryPrograms(ebpflink.QueryOptions{Target: a.Index, Attach: hook})
			if err == nil && len(r.Programs) > 0 { // otherwise the kernel has no such hook
				text = append(text, fmt.Sprintf("%d programs at %s", len(r.Programs), hook))
			}
		}
		state["link "+a.Name] = strings.Join(append(text, attributes(a.Name)...), ", ")
	}
	if err := addressesAndRoutes(state, names); err != nil {
		return nil, err
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		known, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, family) })
		if err != nil {
			return nil, err
		}
		proxies, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighProxyList(0, family) })
		if err != nil {
			return nil, err
		}
		for _, n := range slices.Concat(known, proxies) {
			if n.State&netlink.NUD_PERMANENT != 0 || n.Flags&netlink.NTF_PROXY != 0 {
				state[fmt.Sprintf("neighbour %s %s", names[n.LinkIndex], n.IP)] = fmt.Sprintf("%s %d", n.HardwareAddr, n.Flags)
			}
		}
	}
	return state, nil
}

// attributes returns the attributes of a link in /sys, in the namespace for which it was mounted; none in other
// namespaces.
func attributes(link string) []string {
	var list []string
	for _, pattern := range []string{
		"brport/hairpin_mode", "brport/isolated", "queues/rx-*/rps_cpus", "queues/rx-*/rps_flow_cnt",
	} {
		paths, _ := filepath.Glob(filepath.Join("/sys/class/net", link, pattern))
		for _, p := range paths {
			if data, err := os.ReadFile(p); err == nil {
				list = append(list, filepath.Base(p)+"="+strings.TrimSpace(string(data)))
			}
		}
	}
	return list
}

func addressesAndRoutes(state map[string]string, names map[int]string) error {
	passing := func(ip net.IP) bool { return ip.IsLinkLocalUnicast() || ip.IsMulticast() }
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if !passing(a.IP) {
			state[fmt.Sprintf("address %s of %s", a.IPNet, names[a.LinkIndex])] = ""
		}
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := dump.Whole(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Table == unix.RT_TABLE_MAIN && (r.Dst == nil || !passing(r.Dst.IP)) {
				state[fmt.Sprintf("route %s via %s through %s", r.Dst, r.Gw, names[r.LinkIndex])] = ""
			}
		}
	}
	return nil
}
