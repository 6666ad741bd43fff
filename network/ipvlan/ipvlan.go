package ipvlan

import (
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// mode is the name of the parameter, and bridged its first value.
const (
	mode    = "mode"
	bridged = "l2"
)

// Network is the network "ipvlan".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "ipvlan",
		Summary:        "an ipvlan link for every container on its host's uplink; all of them share the uplink's MAC address",
		Implementation: "kernel",
		Claims:         claims,
		Params: part.List{network.By(network.ByDocker, network.ByLXC), {
			Name: mode, Default: bridged, Values: link.IPVlanModes(),
			Summary: "l2: containers are neighbours on the underlay; l3: their host routes their packets; l3s: as l3, but " +
				"packets from other hosts pass the host's netfilter and not the container's",
		}},
	}
}

// claims are those of links that hear what is for their own addresses. In modes l3 and l3s they pass neither broadcasts
// nor frames that are none of IP (drivers/net/ipvlan/ipvlan_core.c, ipvlan_process_outbound), but a packet for one
// container arrives as another one has sent it.
func claims(_ int, p part.Params) threat.Claims {
	own := slices.Concat(network.Passes(), threat.Withstands(threat.Listening, threat.MACFlood))
	if bridges(p) {
		return slices.Concat(own,
			network.Believes("ipvlan does not stop containers from sending with other addresses, nor from ARP spoofing"),
			threat.Leaves("ipvlan passes broadcasts to all containers", threat.DHCP, threat.Router))
	}
	return slices.Concat(own, threat.Withstands(threat.Wrapped),
		network.Believes("ipvlan does not stop containers from sending with other addresses, nor from adding the address "+
			"of a container on another host"),
		threat.Leaves("ipvlan does not stop containers from sending to one container as a router or a server of DHCP",
			threat.DHCP, threat.Router))
}

// Steps are the kinds of steps of its own.
func (Network) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Link{}.Kind(): func() host.Step { return new(Link) }}
}

// FilterPoint says that packets can be filtered inside the containers only: in no mode does the host see those between
// them.
func (Network) FilterPoint(part.Params) (network.Point, string) { return network.InContainer, "" }

// Unfilterable says that in mode l3s a filter inside a container does not see what comes from another host: the packet
// is routed to the container, and passes the INPUT of the host only (drivers/net/ipvlan/ipvlan_l3s.c, ipvlan_nf_input).
func (Network) Unfilterable(hosts int, p part.Params) string {
	if p[mode] == "l3s" && hosts > 1 {
		return "with mode=l3s packets from other hosts do not pass the netfilter of the container, where filters under " +
			"ipvlan are (use mode=l3 or mode=l2)"
	}
	return ""
}

// Check says whether this kernel has such links.
func (Network) Check(part.Params) error {
	return link.CheckKind("ipvlan",
		"load the module ipvlan or use a kernel with CONFIG_IPVLAN; the closest alternative is network macvlan")
}

// Trace says that packets leave and arrive by the containers' own links and, across hosts, pass the uplinks.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	mac := ""
	l2 := bridges(t.Lab.Params)
	if l2 {
		lower, _ := network.Below(t.Lab, t.To.Host)
		mac = network.MAC(t.Lab.Seed, t.To.Host.Name(), lower)
	}
	w.Leave(t, t.Target(), mac)
	w.Sent(t.From.Host, t.From.Endpoint.Namespace, t.From.Endpoint.Inner, "")
	switch {
	case t.Same():
	case l2:
		w.Across(t)
	default:
		w.Carried(t)
	}
	w.Received(t.To.Host, t.To.Endpoint.Namespace, t.To.Endpoint.Inner, "")
	w.NotForwarded(t)
	return w
}

// Serves returns the ranges of the host's containers, unless they are on the underlay.
func (Network) Serves(lab network.Lab, h network.Host) []netip.Prefix {
	if bridges(lab.Params) {
		return nil
	}
	return network.Ranges(h)
}

// bridges says whether the containers of a lab are neighbours on the underlay.
func bridges(p part.Params) bool { return p[mode] == "" || p[mode] == bridged }

// Build makes a link for every container above its host's uplink, or above one of its own in a lab of one host.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	l2 := bridges(lab.Params)
	check := lab.Check
	if l2 {
		check = lab.CheckSegment
	}
	if err := check(); err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		steps := network.Base(lab, h)
		lower, made := network.Below(lab, h)
		steps = append(steps, made...)
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j, c := range h.Containers {
			step := Link{host.Upper{
				NS: c.Name, Name: network.Inner, Mode: lab.Params[mode], Lower: lower, MTU: lab.MTU,
			}}
			v4, v6 := network.SegmentAddr(h.Index, c.Index)
			if l2 {
				step.Mode, step.Addresses = bridged, []string{v4.String(), v6.String()}
				steps = append(steps, step)
			} else { // everybody is beyond the link
				v4, v6 = network.ContainerAddr(h.Index, c.Index)
				step.Addresses = []string{network.Whole(v4), network.Whole(v6)}
				steps = append(steps, step,
					host.Route{NS: c.Name, To: "0.0.0.0/0", Dev: network.Inner},
					host.Route{NS: c.Name, To: "::/0", Dev: network.Inner},
				)
			}
			steps = append(steps, network.Inside(c)...)
			ends[i][j] = network.Endpoint{Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Inner: network.Inner}
		}
		if l2 {
			at := network.MAC(lab.Seed, h.Name(), lower)
			steps = append(steps, network.PeerNeighbours(lab, h, ends[i], func(network.Container) string { return at })...)
		}
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}
