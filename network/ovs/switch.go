package ovs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// A Switch is an Open vSwitch in the host's own namespaces: its programs, one bridge with ports, and the flows that
// forward. Its own link on the host is made with it, and is down.
type Switch struct {
	// Name is that of the bridge and of its own link.
	Name string `json:"name"`
	// MAC and MTU (bytes) are those of the link.
	MAC string `json:"mac"`
	MTU int    `json:"mtu"`
	// Datapath is "auto", "kernel" or "userspace".
	Datapath string `json:"datapath"`
	// Explicit forwards by flows of ours instead of learning.
	Explicit bool `json:"explicit,omitempty"`
	// Gateway are the addresses that the host gives to the link.
	Gateway []string `json:"gateway"`
	// Ports are the links, port 1 first.
	Ports []Port `json:"ports,omitempty"`
}

// A Port is a link of the host, a veth, and the container behind it.
type Port struct {
	Name string `json:"name"`
	// NS and Inner are the namespace of the container and the link's other end there.
	NS    string `json:"ns"`
	Inner string `json:"inner"`
	// Addresses are the container's.
	Addresses []string `json:"addresses"`
}

// Kind returns "ovs-switch".
func (Switch) Kind() string { return "ovs-switch" }

// String says the step as a person would.
func (s Switch) String() string {
	text := fmt.Sprintf("open vswitch %s, mac %s, mtu %d, %s datapath, %d ports", s.Name, s.MAC, s.MTU, s.Datapath,
		len(s.Ports))
	if s.Explicit {
		return text + ", explicit flows"
	}
	return text + ", learning"
}

// datapathLinks are what datapaths put among the links of the host besides that of the bridge.
func datapathLinks() []string { return []string{"ovs-netdev", "ovs-system"} }

// kernelDatapath is the name of the datapath in the kernel.
const kernelDatapath = "ovs-system"

// switchWas is what a [Switch] keeps: who forwards, and the programs.
type switchWas struct {
	Datapath string         `json:"datapath"`
	Programs []host.Process `json:"programs,omitempty"`
}

// Apply starts the programs and waits until packets are forwarded.
func (s Switch) Apply(_ context.Context, k *host.Kernel) error {
	if err := ovs.Installed(); err != nil {
		return err
	}
	of, err := s.datapath(k)
	if err != nil {
		return err
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	for _, name := range append(datapathLinks(), s.Name) {
		if _, err := h.ByName(name); err == nil {
			return fmt.Errorf("link %q already exists", name)
		} else if !errors.Is(err, link.ErrNotFound) {
			return err
		}
	}
	for _, p := range s.Ports { // before a kernel older than 6.16 refuses the table that names them
		if _, err := h.ByName(p.Name); err != nil {
			return fmt.Errorf("port %q: %w", p.Name, err)
		}
	}
	flows, err := s.flows()
	if err != nil {
		return err
	}
	dir, err := k.RunDir(ovs.RunDir)
	if err != nil {
		return err
	}
	r := &running{k: k, s: s, instance: ovs.Instance{Dir: dir}, was: switchWas{Datapath: of}}
	if err := r.start(flows); err != nil {
		return errors.Join(r.explain(err), s.remove(k, r.was))
	}
	k.Implementation("network", ovs.Implementation(of, ovs.Settings(of)...))
	return nil
}

// datapath decides who forwards.
func (s Switch) datapath(k *host.Kernel) (string, error) {
	switch s.Datapath {
	case userspace:
		return ovs.Userspace, k.Do("", ovs.UserspaceDatapath)
	case kernel, auto:
	default:
		return "", fmt.Errorf("datapath %q (known: %s, %s, %s)", s.Datapath, auto, kernel, userspace)
	}
	err := k.Do("", ovs.KernelDatapath)
	switch {
	case err == nil:
		return ovs.Kernel, nil
	case s.Datapath == auto && errors.Is(err, errors.ErrUnsupported):
		return ovs.Userspace, k.Do("", ovs.UserspaceDatapath)
	}
	return "", err
}

// running is what Apply has made, so far.
type running struct {
	k              *host.Kernel
	s              Switch
	instance       ovs.Instance
	was            switchWas
	server, daemon *host.Running
}

// program starts a program and keeps it.
func (r *running) program(name string, args []string) (*host.Running, error) {
	started, err := r.k.Start(host.Program{Name: name, Args: args, Env: r.instance.Env(), Package: ovs.Package})
	if err != nil {
		return nil, err
	}
	r.was.Programs = append(r.was.Programs, started.Process())
	return started, r.k.Keep(r.was)
}

func (r *running) start(flows []ovs.Flow) (err error) {
	if err := r.k.Keep(r.was); err != nil {
		return err
	}
	if err := r.instance.Create(); err != nil {
		return err
	}
	if r.was.Datapath == ovs.Userspace && len(r.s.Ports) > 0 {
		if err := r.k.Do("", func() error { return ruleset.Add(r.s.deaf()) }); err != nil {
			return err
		}
	}
	if r.server, err = r.program(ovs.Server, r.instance.ServerArgs()); err != nil {
		return err
	}
	if err := ovs.Ready(r.instance.Database(), r.server.Done()); err != nil {
		return err
	}
	b := ovs.Bridge{Name: r.s.Name, MAC: r.s.MAC, MTU: r.s.MTU, Datapath: r.was.Datapath}
	for _, p := range r.s.Ports {
		b.Ports = append(b.Ports, ovs.PortConfig{Name: p.Name})
	}
	if err := r.instance.Configure(ovs.Config{
		Bridges: []ovs.Bridge{b}, Settings: ovs.Settings(r.was.Datapath),
	}); err != nil {
		return err
	}
	if r.was.Datapath == ovs.Userspace {
		for _, p := range r.s.Ports {
			if err := r.k.Do(p.NS, func() error { return ovs.SegmentDatagrams(p.Inner) }); err != nil {
				return err
			}
		}
	}
	if r.was.Datapath == ovs.Kernel {
		if err := ovs.AwaitCPUs(); err != nil {
			return err
		}
	}
	if r.daemon, err = r.program(ovs.Daemon, r.instance.DaemonArgs()); err != nil {
		return err
	}
	if err := r.instance.Configured(r.daemon.Done()); err != nil {
		return err
	}
	state, err := r.instance.State()
	if err != nil {
		return err
	}
	for _, p := range state.Ports {
		if p.Number <= 0 {
			return fmt.Errorf("port %q: %s", p.Name, p.Error)
		}
	}
	conn, err := ovs.Connect(r.instance.Bridge(r.s.Name))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Modify(ovs.FlowMod{Add: slices.Values(flows)}); err != nil {
		return err
	}
	return r.instance.ForgetDecisions() // to drop packets that came before there were flows
}

// explain adds to an error why a program has died.
func (r *running) explain(err error) error {
	for _, p := range []*host.Running{r.server, r.daemon} {
		if p == nil {
			continue
		}
		if died := p.Died(); died != nil {
			err = errors.Join(err, died)
		}
	}
	return err
}

// grace is how long a program is given to end.
const grace = 2 * time.Second

// Remove ends the programs and removes whatever they leave, also where they have died before.
func (s Switch) Remove(_ context.Context, k *host.Kernel) error {
	var was switchWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return s.remove(k, was)
}

func (s Switch) remove(k *host.Kernel, was switchWas) error {
	var errs []error
	for _, p := range slices.Backward(was.Programs) {
		// links of the daemon stay, as when it has died: "exit --cleanup" takes half a second
		errs = append(errs, k.Stop(p, grace))
	}
	if was.Datapath == ovs.Kernel {
		errs = append(errs, k.Do("", func() error { return ovs.DeleteKernelDatapath(kernelDatapath) }))
	}
	errs = append(errs, s.removeLinks(k))
	dir, err := k.RunDir(ovs.RunDir)
	if err == nil {
		err = os.RemoveAll(dir)
	}
	errs = append(errs, err)
	if was.Datapath == ovs.Userspace {
		if err := k.Do("", func() error { return ruleset.Delete(netdev, table) }); !errors.Is(err, nft.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeLinks removes the links that the daemon has left. They were not there before it started.
func (s Switch) removeLinks(k *host.Kernel) error {
	h, err := k.Links("")
	if err != nil {
		return err
	}
	for _, name := range append(datapathLinks(), s.Name) {
		l, err := h.ByName(name)
		if err == nil {
			err = h.Delete(l.Index)
		}
		if err != nil && !errors.Is(err, link.ErrNotFound) {
			return err
		}
	}
	return nil
}

// The family and the name of the table of nftables that [Switch.deaf] returns.
const (
	netdev = "netdev"
	table  = "nettoll-ports"
)

// deaf returns the rules that keep the host's own network stack from the ports of a userspace datapath. The daemon
// reads the ports by packet sockets, which take nothing away: the host's stack receives every frame as well. Without
// the rules it answers ARP requests for the gateway with the MAC address of the port, and forwards what is sent there
// past the switch. The hook comes after the packet sockets (net/core/dev.c, __netif_receive_skb_core) and before every
// protocol. The kernel's datapath takes the frames away itself (net/openvswitch/vport-netdev.c, netdev_frame_hook).
func (s Switch) deaf() ruleset.Table {
	t := ruleset.Table{Family: netdev, Name: table}
	for _, p := range s.Ports {
		t.Chains = append(t.Chains, ruleset.Chain{
			Name: p.Name, Hook: &ruleset.Hook{Name: "ingress", Link: p.Name}, Rules: ruleset.All(ruleset.Rule{}.Count()),
		})
	}
	return t
}

// Tables and priorities of flows.
const (
	tableForward = ovs.TableForward

	priorityTarget = 30 // who is asked for
	priorityTo     = 20
	priorityHost   = 10
)

// arpRequest and solicitation are how neighbours are asked for: RFC 4861 section 4.3.
const solicitation = 135

// flows are those of the switch.
func (s Switch) flows() ([]ovs.Flow, error) {
	list := []ovs.Flow{{Cookie: ovs.CookieNetwork, Goto: tableForward}}
	if !s.Explicit {
		return append(list, ovs.Flow{Cookie: ovs.CookieNetwork, Table: tableForward, Output: ovs.Normal}), nil
	}
	list = append(list, ovs.Exact(ovs.CookieNetwork, tableForward))
	to := func(addresses []string, port uint32) error {
		for _, text := range addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return fmt.Errorf("address %q: %w", text, err)
			}
			whole := netip.PrefixFrom(a, a.BitLen())
			asked := ovs.Match{Ether: ovs.ARP, Target: a}
			reached := ovs.Match{Ether: ovs.IPv4, To: whole}
			if a.Is6() {
				asked = ovs.Match{Ether: ovs.IPv6, Protocol: ovs.ICMPv6, ICMPType: solicitation, Target: a}
				reached.Ether = ovs.IPv6
			}
			list = append(list,
				ovs.Flow{Cookie: ovs.CookieNetwork, Table: tableForward, Priority: priorityTarget, Match: asked, Output: port},
				ovs.Flow{Cookie: ovs.CookieNetwork, Table: tableForward, Priority: priorityTo, Match: reached, Output: port},
			)
		}
		return nil
	}
	if err := to(s.Gateway, ovs.Local); err != nil {
		return nil, err
	}
	for i, p := range s.Ports {
		if err := to(p.Addresses, uint32(i+1)); err != nil {
			return nil, err
		}
	}
	for _, ether := range []uint16{ovs.IPv4, ovs.IPv6} { // for other hosts
		list = append(list, ovs.Flow{
			Cookie: ovs.CookieNetwork, Table: tableForward, Priority: priorityHost, Match: ovs.Match{Ether: ether},
			Output: ovs.Local,
		})
	}
	return list, nil
}
