package macvlan

import (
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// mode is the name of the parameter, and what it can be (see [link.MacvlanModes]).
const (
	mode     = "mode"
	bridge   = "bridge"
	private  = "private"
	vepa     = "vepa"
	passthru = "passthru"
)

// relay is the port of the switch of mode vepa that sends packets back.
const relay = "relay0"

// Network is the network "macvlan".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "macvlan",
		Summary:        "a macvlan link for every container; all of them are neighbours on the underlay",
		Implementation: "kernel",
		Claims:         claims,
		Params: part.List{network.By(network.ByDocker, network.ByLXC, network.ByPodman), {
			Name: mode, Default: bridge, Values: link.MacvlanModes(), Quiet: true,
			Summary: "bridge: containers of a host reach each other directly; vepa: through an outside switch that sends " +
				"packets back; private: not at all; passthru: each container has a lower link of its own, and the switch at " +
				"their other ends joins them",
		}},
	}
}

// claims are those of neighbours on a segment. Except in mode passthru, a link hears broadcasts and the frames for its
// own MAC address only, also if its container has made it promiscuous.
func claims(_ int, p part.Params) threat.Claims {
	if p[mode] == passthru {
		return slices.Concat(network.Passes(), network.Floods("the underlay's switch"))
	}
	return slices.Concat(network.Passes(), threat.Withstands(threat.Listening, threat.MACFlood),
		network.Believes("macvlan does not stop containers from sending with other addresses, nor from ARP spoofing"),
		threat.Leaves("macvlan passes broadcasts to all containers", threat.DHCP, threat.Router))
}

// Steps are the kinds of steps of its own.
func (Network) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{Link{}.Kind(): func() host.Step { return new(Link) }}
}

// FilterPoint says that packets can be filtered inside the containers only: the host does not see those between them.
func (Network) FilterPoint(part.Params) (network.Point, string) { return network.InContainer, "" }

// Exclude leaves out labs of one host in which no container could reach another, or whose networks Docker does not
// make.
func (Network) Exclude(hosts int, p part.Params) string {
	switch {
	case hosts > 1:
	case single(p):
		return alone + " (valid here: mode=bridge, mode=vepa)"
	case p[mode] == private:
		return "with mode=private containers of one host cannot reach each other (valid here: mode=bridge, mode=vepa)"
	}
	return ""
}

// ExcludePairs leaves out labs whose networks Docker does not make: of two pairs, some host has two containers.
func (Network) ExcludePairs(pairs int, p part.Params) string {
	if pairs > 1 && single(p) {
		return alone + " (valid here: 1 pair, or another mode)"
	}
	return ""
}

// alone is why a host has only one container.
const alone = "docker makes no two networks of the same addresses on a host, and with mode=passthru each container " +
	"has one"

// single says whether a host has only one container.
func single(p part.Params) bool { return network.BuiltBy(p) == network.ByDocker && p[mode] == passthru }

// Wired says that in mode passthru each container has a link of its own to the switch, below its macvlan.
func (Network) Wired(p part.Params) (wired, moved bool) { return p[mode] == passthru, false }

// Check says whether this kernel has such links.
func (Network) Check(part.Params) error {
	return link.CheckKind("macvlan",
		"load the module macvlan or use a kernel with CONFIG_MACVLAN; the closest alternative is network bridge")
}

// Trace says that packets leave and arrive by the containers' own links and, unless both are above the same one in mode
// bridge, pass the links below.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	chosen := t.Lab.Params[mode]
	at := func(s network.Stop) (lower, mac string) {
		name := s.Host.Name()
		lower, mac = s.Host.Uplink, network.MAC(t.Lab.Seed, name, s.Container.Name, network.Inner)
		switch {
		case chosen == passthru:
			lower = network.SwitchPort(s.Container)
			mac = network.MAC(t.Lab.Seed, name, lower)
		case lower == "":
			lower = network.Lower
		}
		return lower, mac
	}
	below, _ := at(t.From)
	above, mac := at(t.To)
	w.Leave(t, t.Target(), mac)
	w.Sent(t.From.Host, t.From.Endpoint.Namespace, t.From.Endpoint.Inner, "")
	switch {
	case chosen == passthru:
		w.Sent(t.From.Host, "", below, "")
		w.Plugged(t)
		w.Received(t.To.Host, "", above, "")
	case !t.Same():
		w.Across(t)
	case chosen == vepa:
		w.Sent(t.From.Host, "", below, "")
		w.Received(t.From.Host, "", relay, network.Switch)
		w.Sent(t.From.Host, "", relay, network.Switch)
		w.Received(t.To.Host, "", above, "")
	}
	w.Received(t.To.Host, t.To.Endpoint.Namespace, t.To.Endpoint.Inner, "")
	w.NotForwarded(t)
	return w
}

// Build makes a link for every container above its host's uplink, or above one of its own in a lab of one host.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.CheckSegment(); err != nil {
		return nil, nil, err
	}
	chosen := lab.Params[mode]
	if chosen == "" {
		chosen = bridge
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		name := h.Name()
		lower, made, err := below(lab, h, chosen)
		if err != nil {
			return nil, nil, err
		}
		steps := append(network.Base(lab, h), made...)
		ends[i] = make([]network.Endpoint, len(h.Containers))
		mac := func(c network.Container) string {
			if chosen == passthru { // it has that of the link below
				return network.MAC(lab.Seed, name, lower[c.Index])
			}
			return network.MAC(lab.Seed, name, c.Name, network.Inner)
		}
		for j, c := range h.Containers {
			v4, v6 := network.SegmentAddr(h.Index, c.Index)
			ends[i][j] = network.Endpoint{Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Inner: network.Inner}
			step := Link{host.Upper{
				NS: c.Name, Name: network.Inner, Mode: chosen, Lower: lower[j], MAC: mac(c), MTU: lab.MTU,
				Addresses: []string{v4.String(), v6.String()},
			}}
			if chosen == passthru {
				step.MAC = ""
			}
			steps = append(steps, step)
			steps = append(steps, network.Inside(c)...)
		}
		plans[i] = host.Plan{Steps: append(steps, network.PeerNeighbours(lab, h, ends[i], mac)...)}
	}
	return plans, ends, nil
}

// below returns the links below those of a host's containers, and the steps that make them where the underlay does not.
func below(lab network.Lab, h network.Host, chosen string) (lower []string, steps []host.Step, err error) {
	if chosen == passthru {
		return network.Plugs(lab, h, false)
	}
	one := h.Uplink
	switch {
	case one != "": // across hosts, the switch of the underlay need not send anything back
	case chosen == vepa:
		one = network.Lower
		name := h.Name()
		steps = []host.Step{
			host.Bridge{Name: network.Switch, MAC: network.MAC(lab.Seed, name, network.Switch), MTU: lab.MTU},
			host.Veth{
				Name: relay, MAC: network.MAC(lab.Seed, name, relay), MTU: lab.MTU, Master: network.Switch,
				PeerName: one, PeerMAC: network.MAC(lab.Seed, name, one),
			},
			host.LinkSettings{Name: relay, Hairpin: true},
		}
	default:
		one, steps = network.Below(lab, h)
	}
	for range h.Containers {
		lower = append(lower, one)
	}
	return lower, steps, nil
}
