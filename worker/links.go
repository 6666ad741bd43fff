package worker

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sysfs"
	"github.com/nettoll/nettoll/traffic"
)

// A Link is a network device.
type Link struct {
	Name      string       `json:"name"`
	MTU       int          `json:"mtu"`                 // bytes
	RouteMTU  int          `json:"route_mtu,omitempty"` // bytes: the least that routes through it have; 0: they have none
	Addresses []netip.Addr `json:"addresses"`
	// Index is its number in the namespace, and Below that of the device below it, see [sysfs.Below]; 0: not known.
	Index int `json:"index"`
	Below int `json:"below,omitempty"`
}

// Longest is how long packets may be that programs of the namespace send through the link, in bytes. Network plugins
// that tunnel packets may leave the MTU of the link as it is, and give one to routes: Cilium does.
func (l Link) Longest() int {
	if l.RouteMTU > 0 {
		return min(l.MTU, l.RouteMTU)
	}
	return l.MTU
}

// CountDevices reads what the devices of a network namespace have counted. It needs no rights.
func CountDevices(h *link.Handle) ([]traffic.DeviceCount, error) {
	links, err := h.Traffic()
	if err != nil {
		return nil, err
	}
	list := make([]traffic.DeviceCount, len(links))
	for i, l := range links {
		list[i] = traffic.DeviceCount{
			Name: l.Name, Index: l.Index, Received: int64(l.Received), Sent: int64(l.Sent),
			ReceivedBytes: int64(l.ReceivedBytes), SentBytes: int64(l.SentBytes), Dropped: int64(l.Dropped),
		}
	}
	return list, nil
}

// OwnLinks lists those of the network namespace of this process. It needs no rights.
func OwnLinks() ([]Link, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	h, err := link.Open()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	ofRoutes, err := h.RouteMTUs()
	if err != nil {
		return nil, err
	}
	list := make([]Link, len(all))
	for i, l := range all {
		list[i] = Link{Name: l.Name, MTU: l.MTU, RouteMTU: ofRoutes[l.Index], Index: l.Index}
		if below, err := sysfs.Below(l.Name); err == nil { // else it is not known
			list[i].Below = below
		}
		addresses, err := l.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", l.Name, err)
		}
		for _, a := range addresses {
			if p, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(p.IP); ok {
					list[i].Addresses = append(list[i].Addresses, ip.Unmap())
				}
			}
		}
	}
	return list, nil
}
