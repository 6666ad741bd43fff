package host

import (
	"net/netip"

	plan "github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Network is the network "host".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "host",
		Summary:        "containers share the namespace and the addresses of their host",
		Implementation: "kernel",
		Near:           near,
		Claims:         func(int, part.Params) threat.Claims { return network.Shared() },
	}
}

// Shares says that the containers of a host do.
func (Network) Shares(part.Params) bool { return true }

// Label calls it loopback in labs of one host, which is what it measures there.
func (Network) Label(hosts int) string {
	if hosts == 1 {
		return "loopback"
	}
	return ""
}

// Trace says that packets stay on the loopback link of a host, or go from uplink to uplink.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	if !t.Same() {
		w.Carried(t)
		w.NotForwarded(t)
		return w
	}
	w.Hops = append(w.Hops, network.Hop{
		Host: t.From.Host.Index,
		Hop:  plan.Hop{From: t.From.Endpoint.Bind(t.Family), To: t.Target()},
		Next: plan.Next{Link: "lo", Via: t.Target()},
	})
	w.Sent(t.From.Host, "", "lo", "")
	w.Received(t.From.Host, "", "lo", "")
	w.NotForwarded(t)
	return w
}

// Serves returns the addresses of the host, which its containers share.
func (Network) Serves(lab network.Lab, h network.Host) []netip.Prefix { return lab.Own(h) }

// Build gives all containers of a host its address: on the loopback link in a lab of one host, else the one at which
// other hosts reach it.
func (Network) Build(lab network.Lab) ([]plan.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	plans := make([]plan.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		steps := append(network.Base(lab, h), network.Sockets("")...)
		var v4, v6 netip.Addr
		if h.Uplink == "" {
			gate4, gate6 := network.Gateway(h.Index)
			v4, v6 = gate4.Addr(), gate6.Addr()
			steps = append(steps, plan.Link{
				Name: "lo", MTU: lab.MTU, Addresses: []string{network.Whole(gate4), network.Whole(gate6)}, Up: true,
			})
		} else {
			v4, v6 = lab.Address(h)
			if top := lab.Top(); lab.MTU < top.MTU { // its containers send there, and no more than those of other networks
				steps = append(steps, plan.Link{Name: top.Reach[i][i].Link, MTU: lab.MTU, Up: true})
			}
		}
		plans[i] = plan.Plan{Steps: steps}
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j := range h.Containers {
			ends[i][j] = network.Endpoint{IPv4: v4, IPv6: v6}
		}
	}
	return plans, ends, nil
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"none", "lo", "loopback"},
			Why:   "it means no container network, and on one host it is loopback",
		},
	}
}
