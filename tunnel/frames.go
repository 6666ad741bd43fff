package tunnel

import (
	"context"
	"errors"
	"fmt"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/iptunnel"
	"github.com/nettoll/nettoll/host/ovstunnel"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Values of the parameter impl of tunnels that carry Ethernet frames, besides those of [iptunnel.Links].
const ovs = "ovs"

// Impl is the parameter that says who encapsulates Ethernet frames.
func Impl() part.Param {
	return part.Param{
		Name: impl, Default: iptunnel.Auto, Values: []string{iptunnel.Auto, iptunnel.Kernel, ovs},
		Summary: "what encapsulates: the kernel's device, Open vSwitch in userspace, or auto: the device if the kernel has it",
	}
}

// ByOVS says whether the parameters leave no choice but Open vSwitch, and ByKernel whether they leave none but the
// kernel.
func ByOVS(p part.Params) bool { return p[impl] == ovs }

// ByKernel says whether the parameters leave no choice but the kernel.
func ByKernel(p part.Params) bool { return p[impl] == iptunnel.Kernel }

// Frames make links whose Ethernet frames a device of the kernel carries to other hosts, or else Open vSwitch: D is the
// step that makes the device.
type Frames[D host.Step] struct {
	// Impl is "auto", "kernel" or "ovs".
	Impl string `json:"impl"`
	// Type is what the kernel calls the device.
	Type   string `json:"type"`
	Device D      `json:"device"`
	// Switch makes the same links by Open vSwitch.
	Switch ovstunnel.Links `json:"switch"`
}

// Kind is that of the device, and that there is a choice.
func (f Frames[D]) Kind() string { return "frames-by-" + f.Device.Kind() }

// String says the step as a person would.
func (f Frames[D]) String() string {
	switch f.Impl {
	case ovs:
		return f.Switch.String()
	case iptunnel.Kernel:
		return f.Device.String()
	}
	return f.Device.String() + "; by Open vSwitch if the kernel has no " + f.Type
}

// implementation decides who encapsulates. in calls a function on the host.
func (f Frames[D]) implementation(in func(func() error) error) (string, error) {
	device := func() error {
		return in(func() error {
			return link.CheckKind(f.Type, fmt.Sprintf("load the kernel's module for it, or use %s=%s", impl, ovs))
		})
	}
	switch f.Impl {
	case iptunnel.Kernel:
		return iptunnel.Kernel, device()
	case ovs:
		return ovs, in(ovstunnel.Check)
	case "", iptunnel.Auto:
	default:
		return "", fmt.Errorf("implementation %q (known: %s, %s, %s)", f.Impl, iptunnel.Auto, iptunnel.Kernel, ovs)
	}
	err := device()
	if !errors.Is(err, errors.ErrUnsupported) {
		return iptunnel.Kernel, err
	}
	if other := in(ovstunnel.Check); other != nil {
		return "", errors.Join(err, other)
	}
	return ovs, nil
}

// Check says whether this machine can make such links.
func (f Frames[D]) Check() error {
	_, err := f.implementation(func(do func() error) error { return do() })
	return err
}

func (f Frames[D]) on(k *host.Kernel) (string, error) {
	return f.implementation(func(do func() error) error { return k.Do("", do) })
}

// Apply makes the links.
func (f Frames[D]) Apply(ctx context.Context, k *host.Kernel) error {
	of, err := f.on(k)
	if err != nil {
		return err
	}
	if of == ovs {
		return f.Switch.Apply(ctx, k)
	}
	if err := f.Device.Apply(ctx, k); err != nil {
		return err
	}
	k.Implementation(name, of)
	return nil
}

// Remove removes what was made.
func (f Frames[D]) Remove(ctx context.Context, k *host.Kernel) error {
	var was struct{ OVS bool }
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	if was.OVS {
		return f.Switch.Remove(ctx, k)
	}
	return f.Device.Remove(ctx, k)
}

// Verify asks the kernel, or Open vSwitch.
func (f Frames[D]) Verify(k *host.Kernel) error {
	of, err := f.on(k)
	if err != nil {
		return err
	}
	if of == ovs {
		return f.Switch.Verify(k)
	}
	return f.Device.Verify(k)
}

// Count returns what the tunnel ports of Open vSwitch have sent and received, or the devices.
func (f Frames[D]) Count(k *host.Kernel) (map[string]uint64, error) {
	of, err := f.on(k)
	if err != nil {
		return nil, err
	}
	if of == ovs {
		return f.Switch.Count(k)
	}
	names := make([]string, len(f.Switch.Links))
	for i, l := range f.Switch.Links {
		names[i] = l.Name
	}
	return iptunnel.CountLinks(k, names)
}

// Switched returns the links that Open vSwitch makes on a host of a lab, by index, for a span on the uppermost one of
// the lab. Its ports are of that type and take packets for that UDP port, 0 for none, with that identifier, 0 for none.
// The span has its links and MAC addresses already.
func Switched(lab network.Lab, top network.Span, i int, kind string, id uint32, s Settings) ovstunnel.Links {
	below := lab.Top()
	host := lab.Hosts[i].Name()
	t := ovstunnel.Links{
		Type: kind, Port: s.Port, ID: id, Checksum: s.Checksum, MTU: top.MTU, Outer: below.MTU,
		NS: top.Name + "-ovs", Gate: gate, GateMAC: network.MAC(lab.Seed, host, gate), OwnMAC: network.MAC(lab.Seed, host,
			gate, ovs),
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
func CarryFrames(lab network.Lab, name string, p part.Params, o network.Overhead) network.Span {
	below, top := lab.Top(), lab.Above(name, 2, p[outer], "", o)
	link := func(h network.Host) string { return fmt.Sprintf("%s%d", name, h.Index) }
	top.Wire = carried(name, true)
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
			Impl: p[impl], Type: tap(p[outer]), Device: t,
			Switch: Switched(lab, top, i, "gre", 0, Settings{Outer: p[outer]}),
		}}, rest...)
	}
	return top
}

// FrameSteps are the kinds of steps of such a tunnel.
func FrameSteps() map[string]func() host.Step {
	return map[string]func() host.Step{
		Frames[iptunnel.Links]{}.Kind(): func() host.Step { return new(Frames[iptunnel.Links]) },
	}
}

// CheckFrames says whether this machine can make such a tunnel.
func CheckFrames(p part.Params) error {
	return Frames[iptunnel.Links]{Impl: p[impl], Type: tap(p[outer])}.Check()
}

// tap is the kernel's name of devices that carry frames in GRE.
func tap(family string) string { return link.TunnelKind(true, true, family == ipv6) }

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
