package ovs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// A Switch is an Open vSwitch in the host's own namespaces: its programs, one bridge with ports, and the flows that forward. Its own link on the host is
// made with it, and is down.
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
	text := fmt.Sprintf("open vswitch %s, mac %s, mtu %d, %s datapath, %d ports", s.Name, s.MAC, s.MTU, s.Datapath, len(s.Ports))
	if s.Explicit {
		return text + ", explicit flows"
	}
	return text + ", learning"
}

// datapathLinks are what datapaths put among the links of the host besides that of the bridge.
func datapathLinks() []string { return []string{"ovs-netdev", "ovs-system"} }

// kernelDatapath is the name of the datapath in the kernel.
const kernelDatapath = "ovs-system"

// Apply starts the programs and waits until packets are forwarded.
func (s Switch) Apply(k *host.Kernel) (func() error, error) {
	if err := ovs.Installed(); err != nil {
		return nil, err
	}
	of, err := s.datapath(k)
	if err != nil {
		return nil, err
	}
	h, err := k.Links("")
	if err != nil {
		return nil, err
	}
	for _, name := range append(datapathLinks(), s.Name) {
		if _, err := h.ByName(name); err == nil {
			return nil, fmt.Errorf("link %q is there already", name)
		} else if !errors.Is(err, link.ErrNotFound) {
			return nil, err
		}
	}
	flows, err := s.flows()
	if err != nil {
		return nil, err
	}
	dir, err := k.RunDir(ovs.RunDir)
	if err != nil {
		return nil, err
	}
	r := &running{k: k, s: s, instance: ovs.Instance{Dir: dir}, of: of}
	if err := r.start(flows); err != nil {
		return nil, errors.Join(r.explain(err), r.stop())
	}
	k.Implementation("network", ovs.Implementation(of, ovs.Settings(of)...))
	return r.stop, nil
}

// datapath decides who forwards.
func (s Switch) datapath(k *host.Kernel) (string, error) {
	switch s.Datapath {
	case userspace:
		return ovs.Userspace, nil
	case kernel, auto:
	default:
		return "", fmt.Errorf("datapath %q (known: %s, %s, %s)", s.Datapath, auto, kernel, userspace)
	}
	err := k.Do("", ovs.KernelDatapath)
	switch {
	case err == nil:
		return ovs.Kernel, nil
	case s.Datapath == auto && errors.Is(err, errors.ErrUnsupported):
		return ovs.Userspace, nil
	}
	return "", err
}

// running is what Apply has made, so far.
type running struct {
	k              *host.Kernel
	s              Switch
	instance       ovs.Instance
	of             string
	server, daemon *host.Running
	gone           bool
}

func (r *running) start(flows []ovs.Flow) (err error) {
	if err := r.instance.Create(); err != nil {
		return err
	}
	if r.server, err = r.k.Start(host.Program{Name: ovs.Server, Args: r.instance.ServerArgs(), Env: r.instance.Env(), Package: ovs.Package}); err != nil {
		return err
	}
	if err := ovs.Ready(r.instance.Database(), r.server.Done()); err != nil {
		return err
	}
	c := ovs.Config{Bridge: r.s.Name, MAC: r.s.MAC, MTU: r.s.MTU, Datapath: r.of}
	for _, p := range r.s.Ports {
		c.Ports = append(c.Ports, p.Name)
	}
	if err := r.instance.Configure(c); err != nil {
		return err
	}
	if r.of == ovs.Userspace {
		for _, p := range r.s.Ports {
			if err := r.k.Do(p.NS, func() error { return ovs.SegmentDatagrams(p.Inner) }); err != nil {
				return err
			}
		}
	}
	if r.daemon, err = r.k.Start(host.Program{Name: ovs.Daemon, Args: r.instance.DaemonArgs(), Env: r.instance.Env(), Package: ovs.Package}); err != nil {
		return err
	}
	if err := r.instance.Configured(r.daemon.Done()); err != nil {
		return err
	}
	ports, err := r.instance.Ports()
	if err != nil {
		return err
	}
	for _, p := range ports {
		if p.Number <= 0 {
			return fmt.Errorf("port %q: %s", p.Name, p.Error)
		}
	}
	conn, err := ovs.Connect(r.instance.Bridge(r.s.Name))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Change(ovs.Change{Add: slices.Values(flows)}); err != nil {
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

// stop ends the programs and removes whatever they leave, also where they have died before.
func (r *running) stop() error {
	if r.gone {
		return nil
	}
	var errs []error
	if r.daemon != nil {
		errs = append(errs, r.daemon.Stop(grace)) // its links stay, as when it has died: "exit --cleanup" takes half a second
	}
	if r.server != nil {
		errs = append(errs, r.server.Stop(grace))
	}
	if r.of == ovs.Kernel {
		errs = append(errs, r.k.Do("", func() error { return ovs.DeleteKernelDatapath(kernelDatapath) }))
	}
	errs = append(errs, r.removeLinks(), os.RemoveAll(r.instance.Dir))
	err := errors.Join(errs...)
	r.gone = err == nil
	return err
}

// removeLinks removes the links that the daemon has left. They were not there before it started.
func (r *running) removeLinks() error {
	h, err := r.k.Links("")
	if err != nil {
		return err
	}
	for _, name := range append(datapathLinks(), r.s.Name) {
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
		list = append(list, ovs.Flow{Cookie: ovs.CookieNetwork, Table: tableForward, Priority: priorityHost, Match: ovs.Match{Ether: ether}, Output: ovs.Local})
	}
	return list, nil
}
