package routed

import (
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// gateway is the name of the parameter, and what it can be.
const (
	gateway   = "gateway"
	linkLocal = "link-local"
	proxyARP  = "proxy-arp"
)

// Calico's gateways, as in its manual: "Why can't I see the 169.254.1.1 address mentioned above on my host?", and the
// address that a link with the MAC address ee:ee:ee:ee:ee:ee makes for itself (RFC 4291, appendix A).
const (
	calico4 = "169.254.1.1"
	calico6 = "fe80::ecee:eeff:feee:eeee"
)

// Network is the network "routed".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "routed",
		Summary:        "a veth to every container without a bridge, and a route to it on its host",
		Implementation: "kernel",
		Near:           near,
		Claims:         claims,
		Params: append(part.List{{
			Name: gateway, Default: linkLocal, Values: []string{linkLocal, proxyARP},
			Summary: "gateway of the containers: link-local: 169.254.1.1 and fe80::ecee:eeff:feee:eeee, as with Calico; " +
				"proxy-arp: the first address of the host's range, which the host answers for by proxy ARP and proxy NDP",
		}}, network.LinkParams()...),
	}
}

// claims are those of a router with a link of its own to each container.
func claims(int, part.Params) threat.Claims {
	return slices.Concat(network.Passes(), network.Separate("the host routes a packet whatever its source"))
}

// FilterPoint says that packets can be filtered where the host forwards.
func (Network) FilterPoint(part.Params) (network.Point, string) { return network.AtForward, "" }

// Check says which of the parameters cannot be had here.
func (Network) Check(p part.Params) error { return network.CheckLinks(p) }

// Trace says that each container gives its packets to the host's end of its link, and that the network stacks of the
// hosts forward them.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	mac := func(s network.Stop, link ...string) string {
		return network.MAC(t.Lab.Seed, append([]string{s.Host.Name()}, link...)...)
	}
	g := gatesOf(t.Lab, t.From.Host)
	gate := g.v4
	if t.Family == "ipv6" {
		gate = g.v6
	}
	w.Leave(t, netip.MustParseAddr(gate), mac(t.From, t.From.Endpoint.Link))
	w.Received(t.From.Host, "", t.From.Endpoint.Link, "")
	w.Forwarded(t)
	if !t.Same() {
		w.Carried(t)
	}
	w.Sent(t.To.Host, "", t.To.Endpoint.Link, "")
	w.Arrive(t, t.To.Endpoint.Link, mac(t.To, t.To.Container.Name, network.Inner))
	return w
}

// Serves returns the ranges of the host's containers.
func (Network) Serves(_ network.Lab, h network.Host) []netip.Prefix { return network.Ranges(h) }

// Build makes a veth for every container, and a route to it on its host.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		steps := append(network.Base(lab, h), network.Forwarding()...)
		if h.Uplink == "" { // a host has an address of its own, which its ICMP messages come from
			own4, own6 := network.UnderlayAddr(h.Index)
			steps = append(steps, host.Link{
				Name: "lo", MTU: lab.MTU, Addresses: []string{network.Whole(own4), network.Whole(own6)}, Up: true,
			})
		}
		g := gatesOf(lab, h)
		steps = append(steps, host.Route{To: g.v4 + "/32", Dev: "lo"})
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j, c := range h.Containers {
			theirs, end, err := join(lab, h, c, g)
			if err != nil {
				return nil, nil, err
			}
			steps, ends[i][j] = append(steps, theirs...), end
		}
		steps = append(steps, network.Tuned(lab.Params, ends[i])...)
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}

// gates are the gateways of a host's containers. Those of IPv6 are proxied, or each host's end has it.
type gates struct {
	v4, v6  string
	proxied bool
}

func gatesOf(lab network.Lab, h network.Host) gates {
	if lab.Params[gateway] != proxyARP {
		return gates{calico4, calico6, false}
	}
	v4, v6 := network.Gateway(h.Index)
	return gates{v4.Addr().String(), v6.Addr().String(), true}
}

// join returns the steps that join a container to its host, and where it is then.
func join(lab network.Lab, h network.Host, c network.Container, g gates) ([]host.Step, network.Endpoint, error) {
	outer, err := network.Outer(h, c)
	if err != nil {
		return nil, network.Endpoint{}, err
	}
	name := h.Name()
	v4, v6 := network.ContainerAddr(h.Index, c.Index)
	veth := host.Veth{
		Name: outer, MAC: network.MAC(lab.Seed, name, outer), MTU: lab.MTU,
		PeerNS: c.Name, PeerName: network.Inner, PeerMAC: network.MAC(lab.Seed, name, c.Name, network.Inner),
		PeerAddresses: []string{network.Whole(v4), network.Whole(v6)},
	}
	if !g.proxied {
		veth.Addresses = []string{g.v6 + "/64"}
	}
	// The kernel delays the answer to a broadcast by a random time of up to 0.8 s (net/core/neighbour.c, pneigh_enqueue).
	steps := []host.Step{
		veth,
		host.Sysctl{Key: "net.ipv4.conf." + outer + ".proxy_arp", Value: "1"},
		host.Sysctl{Key: "net.ipv4.neigh." + outer + ".proxy_delay", Value: "0"},
	}
	if g.proxied {
		steps = append(steps,
			host.Sysctl{Key: "net.ipv6.conf." + outer + ".proxy_ndp", Value: "1"},
			host.Sysctl{Key: "net.ipv6.neigh." + outer + ".proxy_delay", Value: "0"},
			host.Neighbour{Dev: outer, Addresses: []string{g.v6}, Proxy: true},
		)
	}
	steps = append(steps,
		host.Route{To: network.Whole(v4), Dev: outer},
		host.Route{To: network.Whole(v6), Dev: outer},
		host.Route{NS: c.Name, To: g.v4 + "/32", Dev: network.Inner},
		host.Route{NS: c.Name, To: "0.0.0.0/0", Via: g.v4, Dev: network.Inner},
	)
	if g.proxied { // one of link scope is on the link anyway
		steps = append(steps, host.Route{NS: c.Name, To: g.v6 + "/128", Dev: network.Inner})
	}
	steps = append(steps, host.Route{NS: c.Name, To: "::/0", Via: g.v6, Dev: network.Inner})
	if lab.StaticNeighbours() {
		steps = append(steps,
			host.Neighbour{Dev: outer, Addresses: []string{v4.Addr().String(), v6.Addr().String()}, At: veth.PeerMAC},
			host.Neighbour{NS: c.Name, Dev: network.Inner, Addresses: []string{g.v4, g.v6}, At: veth.MAC},
		)
	}
	end := network.Endpoint{
		Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Link: outer, Inner: network.Inner,
		MAC: veth.PeerMAC,
	}
	return append(steps, network.Inside(c)...), end, nil
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"calico"},
			Why:   network.Plugins + "Calico routes to its containers, as this network does",
		},
	}
}
