package bridge

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
)

// Names of links. A container's link on its host is called as the container with a v before.
const (
	bridgeName = "br0"
	innerName  = "eth0"
	outerName  = "v%s"
	// maxName is the longest name of a link: IFNAMSIZ less the final zero, include/uapi/linux/if.h.
	maxName = 15
	// maxPorts is the number of ports of a bridge: BR_MAX_PORTS less port 0, net/bridge/br_private.h.
	maxPorts = 1<<10 - 1
)

// Network is the network "bridge".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "bridge",
		Summary:        "a Linux bridge on each host with a veth to every container, and direct routes between the hosts",
		Implementation: "kernel",
	}
}

// Build makes a bridge on each host and a port for every container.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		if len(h.Containers) > maxPorts {
			return nil, nil, fmt.Errorf("host %d: %d containers, and a bridge has at most %d ports", h.Index, len(h.Containers), maxPorts)
		}
		steps := network.Base(lab, h)
		if len(lab.Hosts) > 1 {
			// Before any variable below net.ipv4.conf: turning it on sets those back (Documentation/networking/ip-sysctl.rst, ip_forward).
			steps = append(steps,
				host.Sysctl{Key: "net.ipv4.ip_forward", Value: "1"},
				host.Sysctl{Key: "net.ipv6.conf.all.forwarding", Value: "1"},
			)
		}
		name := fmt.Sprintf("host%d", h.Index)
		gate4, gate6 := network.Gateway(h.Index)
		steps = append(steps, host.Bridge{
			Name: bridgeName, MAC: network.MAC(lab.Seed, name, bridgeName), MTU: lab.MTU,
			Snooping:  true, // as by default, and as others leave it
			Addresses: []string{gate4.String(), gate6.String()},
		})
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j, c := range h.Containers {
			outer := fmt.Sprintf(outerName, c.Name)
			if len(outer) > maxName {
				return nil, nil, fmt.Errorf("host %d: the name %q of a container is too long (1 to %d bytes)", h.Index, c.Name, maxName-len(outer)+len(c.Name))
			}
			v4, v6 := network.ContainerAddr(h.Index, c.Index)
			ends[i][j] = network.Endpoint{Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr()}
			steps = append(steps,
				host.Veth{
					Name: outer, MAC: network.MAC(lab.Seed, name, outer), MTU: lab.MTU, Master: bridgeName,
					PeerNS: c.Name, PeerName: innerName, PeerMAC: network.MAC(lab.Seed, name, c.Name, innerName),
					PeerAddresses: []string{v4.String(), v6.String()},
				},
				host.Route{NS: c.Name, To: "0.0.0.0/0", Via: gate4.Addr().String(), Dev: innerName},
				host.Route{NS: c.Name, To: "::/0", Via: gate6.Addr().String(), Dev: innerName},
			)
			steps = append(steps, network.Sockets(c.Name)...)
		}
		for _, other := range lab.Hosts {
			if other.Index == h.Index {
				continue
			}
			their4, their6 := network.Gateway(other.Index)
			via4, via6 := other.Underlay()
			steps = append(steps,
				host.Route{To: their4.Masked().String(), Via: via4.Addr().String(), Dev: h.Uplink},
				host.Route{To: their6.Masked().String(), Via: via6.Addr().String(), Dev: h.Uplink},
			)
		}
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}
