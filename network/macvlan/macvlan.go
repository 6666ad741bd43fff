package macvlan

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Names of the links of a host without an uplink: the one below the containers', and its idle end.
const (
	lowerName = "lower0"
	idleName  = "idle0"
)

// Network is the network "macvlan".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "macvlan",
		Summary:        "a macvlan link in mode bridge for every container, which makes all of them neighbours on the underlay",
		Implementation: "kernel",
	}
}

// Guarded says that its packets can be filtered inside the containers only: the host does not see those between them.
func (Network) Guarded(part.Params) (network.Point, string) { return network.InContainer, "" }

// Build makes a link for every container above its host's uplink, or above one of its own in a lab of one host.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	if len(lab.Hosts) > network.MaxSegmentHosts {
		return nil, nil, fmt.Errorf("%d hosts, and the range of the underlay has room for the containers of %d", len(lab.Hosts), network.MaxSegmentHosts)
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		if len(h.Containers) > network.MaxSegmentContainers {
			return nil, nil, fmt.Errorf("host %d: %d containers, and the range of the underlay has room for %d", h.Index, len(h.Containers), network.MaxSegmentContainers)
		}
		name := fmt.Sprintf("host%d", h.Index)
		steps, lower := network.Base(lab, h), h.Uplink
		if lower == "" {
			lower = lowerName
			steps = append(steps, host.Veth{
				Name: lowerName, MAC: network.MAC(lab.Seed, name, lowerName), MTU: lab.MTU,
				PeerName: idleName, PeerMAC: network.MAC(lab.Seed, name, idleName),
			})
		}
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j, c := range h.Containers {
			v4, v6 := network.SegmentAddr(h.Index, c.Index)
			ends[i][j] = network.Endpoint{Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Inner: network.Inner}
			steps = append(steps, host.Macvlan{
				NS: c.Name, Name: network.Inner, Mode: "bridge", Lower: lower,
				MAC: network.MAC(lab.Seed, name, c.Name, network.Inner), MTU: lab.MTU,
				Addresses: []string{v4.String(), v6.String()},
			})
			steps = append(steps, network.Sockets(c.Name)...)
		}
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}
