package network

import (
	"net/netip"

	"github.com/nettoll/nettoll/host"
)

// Direct returns the routes of a host to the containers of the others, by their hosts on the underlay.
func Direct(lab Lab, h Host) []host.Step {
	var steps []host.Step
	for _, other := range lab.Hosts {
		if other.Index == h.Index {
			continue
		}
		their4, their6 := Gateway(other.Index)
		via4, via6 := other.Underlay()
		steps = append(steps,
			host.Route{To: their4.Masked().String(), Via: via4.Addr().String(), Dev: h.Uplink},
			host.Route{To: their6.Masked().String(), Via: via6.Addr().String(), Dev: h.Uplink},
		)
	}
	return steps
}

// Whole is an address without the others of its range.
func Whole(p netip.Prefix) string { return netip.PrefixFrom(p.Addr(), p.Addr().BitLen()).String() }
