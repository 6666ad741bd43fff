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
	MTU       int          `json:"mtu"` // bytes
	Addresses []netip.Addr `json:"addresses"`
	// Index is its number in the namespace, and Below that of the device below it, see [sysfs.Below]; 0: not known.
	Index int `json:"index"`
	Below int `json:"below,omitempty"`
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
	list := make([]Link, len(all))
	for i, l := range all {
		list[i] = Link{Name: l.Name, MTU: l.MTU, Index: l.Index}
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
