package network

import (
	"net/netip"

	"github.com/nettoll/nettoll/host"
)

// A Server is a network that reaches containers on other hosts through spans. The containers of any other network are
// on the underlay themselves: nothing is routed to them, and no carrier carries their packets.
type Server interface {
	// Serves returns the ranges and addresses, of both families, at which a host of the lab is reached for its containers.
	// It is empty if the parameters of the lab put the containers on the underlay. It is pure.
	Serves(lab Lab, h Host) []netip.Prefix
}

// Ranges returns the ranges of a host's containers, for a [Server] that routes to all of them: see [Gateway].
func Ranges(h Host) []netip.Prefix {
	v4, v6 := Gateway(h.Index)
	return []netip.Prefix{v4.Masked(), v6.Masked()}
}

// Serves returns the ranges that a network serves on a host, nil if it is not a [Server].
func Serves(n Network, lab Lab, h Host) []netip.Prefix {
	if s, ok := n.(Server); ok {
		return s.Serves(lab, h)
	}
	return nil
}

// Routes returns the routes of a host to the ranges that the network serves on the other hosts of the lab, through the
// uppermost span. An address of a host on that span needs no route, and there are none if programs of the network set
// them ([Crosser]).
func Routes(n Network, lab Lab, h Host) []host.Route {
	if len(lab.Hosts) < 2 || crosses(n, lab.Params) {
		return nil
	}
	var routes []host.Route
	top := lab.Top()
	for _, other := range lab.Hosts {
		if other.Index == h.Index {
			continue
		}
		r := top.Reach[h.Index-1][other.Index-1]
		for _, to := range Serves(n, lab, other) {
			if at := r.Pick(to.Addr()); to != netip.PrefixFrom(at, at.BitLen()) {
				routes = append(routes, host.Route{
					To: to.String(), Via: r.Next(to.Addr()).String(), Dev: r.Link, Encap: r.Encap,
				})
			}
		}
	}
	return routes
}

// Join builds a lab of a network, and adds to the plan of each host the routes to the others.
func Join(n Network, lab Lab) ([]host.Plan, [][]Endpoint, error) {
	plans, ends, err := n.Build(lab)
	if err != nil {
		return nil, nil, err
	}
	for i := range min(len(plans), len(lab.Hosts)) {
		for _, r := range Routes(n, lab, lab.Hosts[i]) {
			plans[i].Steps = append(plans[i].Steps, r)
		}
	}
	return plans, ends, nil
}

// Whole returns an address as a range of one.
func Whole(p netip.Prefix) string { return netip.PrefixFrom(p.Addr(), p.Addr().BitLen()).String() }
