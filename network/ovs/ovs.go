package ovs

import (
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ovs"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Parameters, and what they can be.
const (
	datapath  = "datapath"
	auto      = "auto"
	kernel    = "kernel"
	userspace = "userspace"

	flows    = "flows"
	normal   = "normal"
	explicit = "explicit"
)

// Network is the network "ovs".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "ovs",
		Summary:        "an Open vSwitch on each host with a veth to every container",
		Implementation: "ovs",
		Near:           near,
		Claims:         claims,
		Params: part.List{
			{
				Name: datapath, Default: auto, Values: []string{auto, kernel, userspace},
				Summary: "what forwards: the kernel module openvswitch, the daemon itself, or auto: the module if there is one",
			},
			{Name: flows, Default: normal, Values: []string{normal, explicit}, Summary: "normal: the switch learns and " +
				"floods; explicit: one flow per container address, and nothing is flooded"},
		},
	}
}

// claims are those of a switch that learns, or of one that has a flow for each address and floods nothing. Such flows
// look at the IP address that a packet is for: it goes to who has that address, the host or a container, whatever MAC
// address the frame is for.
func claims(_ int, p part.Params) threat.Claims {
	if p[flows] == explicit {
		return slices.Concat(network.Passes(), threat.Withstands(threat.Misdirected, threat.Listening, threat.MACFlood,
			threat.Stray), network.Believes("the switch does not look at who sends packets and answers of ARP"),
			threat.Leaves("the switch passes to one container what another one sends it as a router or a server of DHCP",
				threat.DHCP, threat.Router))
	}
	return slices.Concat(network.Passes(), network.Floods("the switch"))
}

// FilterPoint says that packets can be filtered by OpenFlow.
func (Network) FilterPoint(part.Params) (network.Point, string) {
	return network.AtOpenFlow, network.Bridge
}

// Steps are its own.
func (Network) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Switch{}.Kind(): func() host.Step { return new(Switch) }}
}

// Check wants the programs, and what the datapath needs: the kernel's module, or a device to make links with.
func (Network) Check(p part.Params) error {
	if err := ovs.Installed(); err != nil {
		return err
	}
	switch p[datapath] {
	case kernel:
		return ovs.KernelDatapath()
	case auto:
		if ovs.KernelDatapath() == nil {
			return nil
		}
	}
	return ovs.UserspaceDatapath()
}

// Programmed is true where the daemon may forward.
func (Network) Programmed(p part.Params) bool { return p[datapath] != kernel }

// MostMTU is that of the switch's own link: the longest packet less the header of Ethernet. The kernel refuses more for
// links of its module and of the daemon alike.
func (Network) MostMTU(part.Params) int { return network.MaxMTU - ethernet }

// ethernet is the length in bytes of a header of Ethernet.
const ethernet = 14

// Serves returns the ranges of the host's containers.
func (Network) Serves(_ network.Lab, h network.Host) []netip.Prefix { return network.Ranges(h) }

// Build makes a switch on each host, with a port for every container.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		steps := network.Base(lab, h)
		if len(lab.Hosts) > 1 {
			steps = append(steps, network.Forwarding()...)
		} else {
			steps = append(steps, network.NoForwarding()...)
		}
		switched, theirs, err := join(lab, h)
		if err != nil {
			return nil, nil, err
		}
		steps, ends[i] = append(steps, switched...), theirs
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}

// join returns the steps that join the containers of a host by a switch, which has their gateway, and where they are
// then. The switch comes after all links, so that it is configured once.
func join(lab network.Lab, h network.Host) ([]host.Step, []network.Endpoint, error) {
	name := h.Name()
	gate4, gate6 := network.Gateway(h.Index)
	of := lab.Params[datapath]
	if of == "" {
		of = auto
	}
	sw := Switch{
		Name: network.Bridge, MAC: network.MAC(lab.Seed, name, network.Bridge), MTU: lab.MTU, Datapath: of,
		Explicit: lab.Params[flows] == explicit,
		Gateway:  []string{gate4.Addr().String(), gate6.Addr().String()},
	}
	var links, rest []host.Step
	ends := make([]network.Endpoint, len(h.Containers))
	for i, c := range h.Containers {
		outer, err := network.Outer(h, c)
		if err != nil {
			return nil, nil, err
		}
		v4, v6 := network.ContainerAddr(h.Index, c.Index)
		ends[i] = network.Endpoint{
			Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Link: outer, Inner: network.Inner,
			MAC: network.MAC(lab.Seed, name, c.Name, network.Inner),
		}
		sw.Ports = append(sw.Ports, Port{
			Name: outer, NS: c.Name, Inner: network.Inner, Addresses: []string{v4.Addr().String(), v6.Addr().String()},
		})
		links = append(links, host.Veth{
			Name: outer, MAC: network.MAC(lab.Seed, name, outer), MTU: lab.MTU,
			PeerNS: c.Name, PeerName: network.Inner, PeerMAC: ends[i].MAC,
			PeerAddresses: []string{v4.String(), v6.String()},
		}, host.Sysctl{
			Key: "net.ipv6.conf." + outer + ".disable_ipv6", Value: "1",
			IfPresent: true,
		}) // the host sends nothing of its own there
		rest = append(rest,
			host.Route{NS: c.Name, To: "0.0.0.0/0", Via: gate4.Addr().String(), Dev: network.Inner},
			host.Route{NS: c.Name, To: "::/0", Via: gate6.Addr().String(), Dev: network.Inner},
		)
		rest = append(rest, network.Inside(c)...)
	}
	links = append(links, sw, host.Link{
		Name: network.Bridge, Addresses: []string{gate4.String(), gate6.String()}, Up: true,
	})
	return append(links, rest...), ends, nil
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"antrea", "ovn", "ovn-kubernetes", "kube-ovn"},
			Why:   network.Plugins + "these forward by Open vSwitch",
		}, {
			Names: []string{"openvswitch", "open-vswitch"},
			Why:   "it is Open vSwitch",
		},
	}
}
