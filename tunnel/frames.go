package tunnel

import (
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/iptunnel"
	"github.com/nettoll/nettoll/host/ovstunnel"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Impl is the parameter that says who encapsulates Ethernet frames.
func Impl() part.Param {
	return part.Param{
		Name: impl, Default: iptunnel.Auto, Values: []string{iptunnel.Auto, iptunnel.Kernel, ovstunnel.OVS},
		Summary: "what encapsulates: the kernel's device, Open vSwitch in userspace, or auto: the device if the kernel has " +
			"it",
	}
}

// ByOVS says whether the parameters leave no choice but Open vSwitch.
func ByOVS(p part.Params) bool { return p[impl] == ovstunnel.OVS }

// Frames is the step that makes links for Ethernet frames, by a device or by Open vSwitch.
type Frames[D host.Step] = ovstunnel.Frames[D]

// Switched returns the links that Open vSwitch makes on a host of a lab, by index, for a span on the uppermost one of
// the lab. Its ports are of that type and take packets for that UDP port, 0 for none, with that identifier, 0 for none.
// The span has its links and MAC addresses already.
func Switched(lab network.Lab, top network.Span, i int, kind string, id uint32, s Settings) ovstunnel.Links {
	below := lab.Top()
	host := lab.Hosts[i].Name()
	t := ovstunnel.Links{
		Type: kind, Port: s.Port, ID: id, Checksum: s.Checksum, MTU: top.MTU, Outer: below.MTU,
		NS: top.Name + "-ovs", Gate: gate, GateMAC: network.MAC(lab.Seed, host, gate), OwnMAC: network.MAC(lab.Seed, host,
			gate, ovstunnel.OVS),
	}
	at := map[string]int{}
	for j, r := range top.Reach[i] {
		if j == i {
			continue
		}
		n, ok := at[r.Link]
		if !ok {
			n, at[r.Link] = len(t.Links), len(t.Links)
			t.Links = append(t.Links, ovstunnel.Link{Name: r.Link, MAC: top.Reach[j][i].MAC})
		}
		t.Links[n].Peers = append(t.Links[n].Peers, ovstunnel.Peer{
			MAC: r.MAC, Below: below.Reach[i][j].Link, Local: At(below.Reach[i][i], s.Outer).String(),
			Remote: At(below.Reach[i][j], s.Outer).String(),
		})
	}
	return t
}

// CarryFrames returns the span that GRE makes which carries Ethernet frames, of that name and overhead. Each host has a
// link for each other host, of which it knows the MAC address there. Each has one address of each family: that of the
// host.
func CarryFrames(lab network.Lab, name string, p part.Params, o network.Overhead) (network.Span, error) {
	below, top := lab.Top(), lab.Above(name, 2, p[outer], "", o)
	by, err := On(below, name, p[impl])
	if err != nil {
		return top, err
	}
	link := func(h network.Host) string { return fmt.Sprintf("%s%d", name, h.Index) }
	top.Wire, top.Guards.Claims = carried(name, true), network.Carries(strings.ToUpper(name), true)
	for i, h := range lab.Hosts {
		for j, other := range lab.Hosts {
			if i != j {
				top.Reach[i][j].Link, top.Reach[i][j].MAC = link(other), network.MAC(lab.Seed, other.Name(), link(h))
			}
		}
	}
	Counted(top)
	for i := range lab.Hosts {
		t := iptunnel.Links{
			Impl: iptunnel.Kernel, GRE: true, Frames: true, Over6: p[outer] == ipv6, MTU: top.MTU,
		}
		var rest []host.Step
		own := top.Reach[i][i]
		for j, r := range top.Reach[i] {
			if i == j {
				continue
			}
			t.Peers = append(t.Peers, iptunnel.Peer{
				Link: r.Link, MAC: top.Reach[j][i].MAC, Below: below.Reach[i][j].Link,
				Local: At(below.Reach[i][i], p[outer]).String(), Remote: At(below.Reach[i][j], p[outer]).String(),
			})
			rest = append(rest,
				host.Link{Name: r.Link, MTU: top.MTU, Addresses: []string{alone(own.IPv4), alone(own.IPv6)}, Up: true},
				host.Neighbour{Dev: r.Link, Addresses: []string{r.IPv4.String(), r.IPv6.String()}, At: r.MAC},
				host.Route{To: alone(r.IPv4), Dev: r.Link}, host.Route{To: alone(r.IPv6), Dev: r.Link},
			)
		}
		top.Steps[i] = append([]host.Step{Frames[iptunnel.Links]{
			Impl: by, Type: t.Type(), Device: t,
			Switch: Switched(lab, top, i, "gre", 0, Settings{Outer: p[outer]}),
		}}, rest...)
	}
	return top, nil
}

// FrameSteps are the kinds of steps of such a tunnel.
func FrameSteps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Frames[iptunnel.Links]{}.Kind(): func() host.Step { return new(Frames[iptunnel.Links]) },
	}
}

// CheckFrames says whether this machine can make such a tunnel.
func CheckFrames(p part.Params) error {
	t := iptunnel.Links{GRE: true, Frames: true, Over6: p[outer] == ipv6}
	return Frames[iptunnel.Links]{Impl: p[impl], Type: t.Type()}.Check()
}

// gate is the name of the link by which outer packets get to Open vSwitch and from there.
const gate = "ovsgate0"

// Counted names the counters of the links of a span, which steps have that are [Frames].
func Counted(top network.Span) {
	for i := range top.Reach {
		for j := range top.Reach[i] {
			if j != i {
				r := &top.Reach[i][j]
				r.Sent, r.Received = iptunnel.Sent(r.Link), iptunnel.Received(r.Link)
			}
		}
	}
}
