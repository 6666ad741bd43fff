package ebpf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/bpf/forward"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// attach is the name of the parameter, and auto the value that leaves it to the network.
const (
	attach = "attach"
	auto   = "auto"
)

// Network is the network "ebpf".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name: "ebpf",
		Summary: "a veth or netkit for every container; an eBPF program forwards past the host's network stack, as Cilium " +
			"does",
		Implementation: "ebpf",
		Near:           near,
		Claims:         claims,
		Params: append(part.List{{
			Name: attach, Default: auto, Values: append([]string{auto}, forward.Ways()...),
			Summary: "hook of the program: tcx or tc: the host's end of each veth; xdp: those links in the driver, on one " +
				"host; netkit: the container's end of a netkit; auto: tcx, or tc in labs of more than 200 containers and before " +
				"Linux 6.6",
		}}, network.LinkParams()...),
	}
}

// claims are those of a program that forwards to one link by the address of the destination.
func claims(int, part.Params) threat.Claims {
	return slices.Concat(network.Passes(), network.Separate("the program does not look at the source of packets"))
}

// FilterPoint says that packets can be filtered on tcx, where the program is on the same links.
func (Network) FilterPoint(p part.Params) (network.Point, string) {
	if p[attach] == forward.XDP || p[attach] == forward.Netkit {
		return "", ""
	}
	return network.AtTCX, ""
}

// Exclude leaves out what XDP would leave to the stack.
func (Network) Exclude(hosts int, p part.Params) string {
	if p[attach] == forward.XDP && hosts > 1 {
		return "attach=xdp forwards only between containers of one host (across hosts use attach=tcx or network routed)"
	}
	return ""
}

// Check tries on a pair of links that nobody else sees.
func (Network) Check(p part.Params) error { return possible(p[attach], forward.Check) }

// possible calls f with a way, or for auto with the first of two that is supported.
func possible(attach string, f func(way string) error) error {
	if attach != auto {
		return f(attach)
	}
	err := f(forward.TCX)
	if errors.Is(err, errors.ErrUnsupported) {
		return f(forward.TC)
	}
	return err
}

// Steps are the kinds of steps of its own.
func (Network) Steps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Forwarding{}.Kind(): func() host.Step { return new(Forwarding) },
		Netkit{}.Kind():     func() host.Step { return new(Netkit) },
	}
}

// Trace says that each container gives its packets to the host's end of its link, where the program takes them and
// sends them on, as it does on the host that they are for: the hosts' network stacks, which would forward them as well,
// forward none.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	w.Leave(t, t.Pick(network.Gateway(t.From.Host.Index)),
		network.MAC(t.Lab.Seed, t.From.Host.Name(), t.From.Endpoint.Link))
	if t.Lab.Params[attach] == forward.Netkit { // the program is in front of the host's end
		w.Sent(t.From.Host, t.From.Endpoint.Namespace, t.From.Endpoint.Inner, "")
	} else {
		w.Received(t.From.Host, "", t.From.Endpoint.Link, "")
	}
	w.CountedOnce(t.From.Host, counter)
	if !t.Same() {
		w.Carried(t)
		w.CountedOnce(t.To.Host, counter)
	}
	w.NotForwarded(t)
	return w
}

// Serves returns the ranges of the host's containers.
func (Network) Serves(_ network.Lab, h network.Host) []netip.Prefix { return network.Ranges(h) }

// Build makes a link for every container, routes for what the program does not know, and hooks the program to all.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	way, err := chosen(lab)
	if err != nil {
		return nil, nil, err
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		gate4, gate6 := network.Gateway(h.Index)
		steps := append(network.Base(lab, h), network.Forwarding()...)
		steps = append(steps, host.Link{Name: "lo", MTU: lab.MTU, Addresses: []string{alone(gate4), alone(gate6)}, Up: true})
		f := Forwarding{Attach: way}
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j, c := range h.Containers {
			outer, err := network.Outer(h, c)
			if err != nil {
				return nil, nil, err
			}
			v4, v6 := network.ContainerAddr(h.Index, c.Index)
			ends[i][j] = network.Endpoint{
				Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Link: outer, Inner: network.Inner,
				MAC: network.MAC(lab.Seed, h.Name(), c.Name, network.Inner),
			}
			member := Member{
				Link: outer, LinkMAC: network.MAC(lab.Seed, h.Name(), outer), MAC: ends[i][j].MAC,
				Addresses: []string{v4.Addr().String(), v6.Addr().String()},
			}
			f.Members = append(f.Members, member)
			steps = append(steps, links(lab, way, c, member)...)
			steps = append(steps, network.Tuned(lab.Params, ends[i][j:j+1])...)
			steps = append(steps, routes(c, member, gate4.Addr(), gate6.Addr())...)
			steps = append(steps, network.Inside(c)...)
		}
		for _, r := range network.Routes(Network{}, lab, h) {
			f.Ranges = append(f.Ranges, Range{To: r.To, Via: r.Via, Link: r.Dev, Encap: r.Encap})
		}
		plans[i] = host.Plan{Steps: append(steps, f)}
	}
	return plans, ends, nil
}

// chosen is how the program is hooked in a lab.
func chosen(lab network.Lab) (string, error) {
	switch way := lab.Params[attach]; way {
	case "", auto:
		// As long as tcx takes no more than a second or two to come and to go: see doc.go. Many is the same many that has
		// permanent neighbours.
		if lab.StaticNeighbours() {
			return forward.TC, nil
		}
		return auto, nil
	case forward.XDP:
		if lab.Params["checksum"] == "on" || lab.Params["gro"] == "off" {
			return "", errors.New("attach=xdp needs checksum=off and gro=on: the veth driver passes on only the bytes of a " +
				"frame, and only to a receiver with NAPI")
		}
		return way, nil
	default:
		return way, nil
	}
}

// links returns the steps that make the link of a container.
func links(lab network.Lab, way string, c network.Container, m Member) []host.Step {
	mine := []string{m.Addresses[0] + "/32", m.Addresses[1] + "/128"}
	if way == forward.Netkit {
		return []host.Step{
			Netkit{Name: m.Link, MAC: m.LinkMAC, MTU: lab.MTU, PeerNS: c.Name, PeerName: network.Inner, PeerMAC: m.MAC},
			host.Link{NS: c.Name, Name: network.Inner, MTU: lab.MTU, Addresses: mine, Up: true},
		}
	}
	steps := []host.Step{host.Veth{
		Name: m.Link, MAC: m.LinkMAC, MTU: lab.MTU, PeerNS: c.Name, PeerName: network.Inner, PeerMAC: m.MAC,
		PeerAddresses: mine,
	}}
	if way == forward.XDP {
		steps = append(steps, host.LinkSettings{NS: c.Name, Name: network.Inner, On: []string{"gro"}, Off: []string{"tx"}})
	}
	return steps
}

// routes returns the steps that let a container reach its host, and everybody through it, and the host reach the
// container.
func routes(c network.Container, m Member, gates ...netip.Addr) []host.Step {
	var steps []host.Step
	var known []string
	for i, gate := range gates {
		whole := netip.PrefixFrom(gate, gate.BitLen())
		steps = append(steps,
			host.Route{To: fmt.Sprintf("%s/%d", m.Addresses[i], gate.BitLen()), Dev: m.Link},
			host.Route{NS: c.Name, To: whole.String(), Dev: network.Inner},
			host.Route{NS: c.Name, To: anywhere(gate), Via: gate.String(), Dev: network.Inner},
		)
		known = append(known, gate.String())
	}
	return append(steps,
		host.Neighbour{NS: c.Name, Dev: network.Inner, Addresses: known, At: m.LinkMAC},
		host.Neighbour{Dev: m.Link, Addresses: m.Addresses, At: m.MAC},
	)
}

// alone is an address without the others of its range.
func alone(p netip.Prefix) string { return netip.PrefixFrom(p.Addr(), p.Addr().BitLen()).String() }

// anywhere is the default route of the family of an address.
func anywhere(a netip.Addr) string {
	if a.Is6() {
		return "::/0"
	}
	return "0.0.0.0/0"
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"cilium"},
			Why:   network.Plugins + "Cilium forwards by eBPF programs, as this network does",
		}, {
			Names: []string{"netkit", "tcx", "xdp"},
			Why:   "give it as its parameter attach",
		},
	}
}
