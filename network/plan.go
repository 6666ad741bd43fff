package network

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
)

// underlayBridge is the bridge of the underlay.
const underlayBridge = "under"

// Underlay returns the plan of the underlay: a bridge and a veth to each host, whose namespaces it calls "@host1",
// "@host2", …. The ends in the hosts have no addresses, [Base] adds them. A network that is [Wired] has a link for each
// container, too. The links send as the lab's [Medium] says: those of hosts where the hosts send, and those of
// containers, whose other end may be anywhere, where the switch does. The lab has more than one host.
//
// With routers, it is those of [Lab.Routed] instead of the bridge.
func Underlay(n Network, lab Lab) host.Plan {
	if lab.Routed() {
		return routers(n, lab)
	}
	steps := append(passes(off), host.Bridge{
		Name: underlayBridge, MAC: MAC(lab.Seed, "underlay", underlayBridge), MTU: lab.outer(),
	})
	own, moved := wired(n, lab.Params)
	for _, h := range lab.Hosts {
		name := h.Name()
		steps = append(steps, withoutDAD("@"+name), host.Veth{
			Name: name, MAC: MAC(lab.Seed, "underlay", name), MTU: lab.outer(), Master: underlayBridge,
			PeerNS: "@" + name, PeerName: h.Uplink, PeerMAC: MAC(lab.Seed, name, h.Uplink),
		})
		for _, s := range lab.Underlay.shape("@"+name, h.Uplink, name, lab.outer()) {
			steps = append(steps, s)
		}
		if own {
			steps = append(steps, jacks(lab, h, moved)...)
		}
	}
	return host.Plan{Steps: steps}
}

// Base returns the steps that every network begins a host's plan with: the loopback link with the lab's MTU, the uplink
// with that of the underlay and the host's addresses there, what carriers make on it, no packet filter on bridges but
// where [BridgeNF] asks for it, and links that can be used at once.
func Base(lab Lab, h Host) []host.Step {
	steps := append(passes(lab.Params[bridgeNF]), withoutDAD(""), host.Link{Name: "lo", MTU: lab.MTU, Up: true})
	if h.Uplink != "" {
		v4, v6 := lab.Underlaid(h)
		steps = append(steps, host.Link{
			Name: h.Uplink, MTU: lab.outer(), Addresses: []string{v4.String(), v6.String()}, Up: true,
		})
		if lab.Routed() {
			steps = append(steps, toRouter(h)...)
		}
	}
	for _, s := range lab.Spans {
		if s.Steps != nil {
			steps = append(steps, s.Steps[h.Index-1]...)
		}
	}
	return steps
}

// Forwarding returns the steps that make a host a router. They come before any variable below net.ipv4.conf: turning it
// on sets those back (Documentation/networking/ip-sysctl.rst, ip_forward).
func Forwarding() []host.Step { return forwarding("1") }

// NoForwarding returns the steps that turn forwarding off. A new namespace inherits the settings of the machine, and a
// machine that runs containers already forwards (net/ipv4/devinet.c, devinet_init_net;
// Documentation/admin-guide/sysctl/net.rst, devconf_inherit_init_net): containers could then bypass a filter at their
// bridge through their gateway.
func NoForwarding() []host.Step { return forwarding("0") }

func forwarding(value string) []host.Step {
	return []host.Step{
		host.Sysctl{Key: "net.ipv4.ip_forward", Value: value},
		host.Sysctl{Key: "net.ipv6.conf.all.forwarding", Value: value},
	}
}

// Names of links. A container's link on its host is called as the container with a v before.
const (
	// Inner is a container's own link.
	Inner = "eth0"
	// Bridge is the bridge of a host.
	Bridge    = "br0"
	outerName = "v%s"
	// maxName is the longest name of a link: IFNAMSIZ less the final zero, include/uapi/linux/if.h.
	maxName = 15
	// MaxPorts is the number of ports of a bridge: BR_MAX_PORTS less port 0, net/bridge/br_private.h.
	MaxPorts = 1<<10 - 1
)

// Outer returns the name of a container's link on its host.
func Outer(h Host, c Container) (string, error) { return linkName(outerName, h, c) }

func linkName(format string, h Host, c Container) (string, error) {
	name := fmt.Sprintf(format, c.Name)
	if len(name) > maxName {
		return "", fmt.Errorf("host %d: the name %q of a container is too long (1 to %d bytes)", h.Index, c.Name,
			maxName-len(name)+len(c.Name))
	}
	return name, nil
}

// Bridged returns the steps that join the containers of a host by a bridge that has their gateway, and the endpoints of
// the containers. With routed, packets pass the gateway.
func Bridged(lab Lab, h Host, routed bool) ([]host.Step, []Endpoint, error) {
	if len(h.Containers) > MaxPorts {
		return nil, nil, fmt.Errorf("host %d: %d containers, but a bridge has at most %d ports", h.Index, len(h.Containers),
			MaxPorts)
	}
	name := h.Name()
	gate4, gate6 := Gateway(h.Index)
	var steps []host.Step
	if lab.StaticNeighbours() {
		steps = append(steps, unasked(""))
	}
	steps = append(steps, host.Bridge{
		Name: Bridge, MAC: MAC(lab.Seed, name, Bridge), MTU: lab.MTU,
		Snooping:  true, // the kernel's default, which container networks leave as it is
		Addresses: []string{gate4.String(), gate6.String()},
	})
	ends, err := bridgedEnds(lab, h)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range h.Containers {
		v4, v6 := ContainerAddr(h.Index, c.Index)
		outer := ends[i].Link
		if lab.StaticNeighbours() {
			steps = append(steps, unasked(c.Name))
		}
		steps = append(steps,
			host.Veth{
				Name: outer, MAC: MAC(lab.Seed, name, outer), MTU: lab.MTU, Master: Bridge,
				PeerNS: c.Name, PeerName: Inner, PeerMAC: ends[i].MAC,
				PeerAddresses: []string{v4.String(), v6.String()},
			},
			host.Route{NS: c.Name, To: "0.0.0.0/0", Via: gate4.Addr().String(), Dev: Inner},
			host.Route{NS: c.Name, To: "::/0", Via: gate6.Addr().String(), Dev: Inner},
		)
		steps = append(steps, Inside(c)...)
	}
	return append(steps, bridgeNeighbours(lab, h, ends, routed)...), ends, nil
}

// bridgedEnds are the endpoints of the containers of a host that a bridge joins.
func bridgedEnds(lab Lab, h Host) ([]Endpoint, error) {
	ends := make([]Endpoint, len(h.Containers))
	for i, c := range h.Containers {
		outer, err := Outer(h, c)
		if err != nil {
			return nil, err
		}
		v4, v6 := ContainerAddr(h.Index, c.Index)
		ends[i] = Endpoint{
			Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Link: outer, Inner: Inner,
			MAC: MAC(lab.Seed, h.Name(), c.Name, Inner),
		}
	}
	return ends, nil
}

// passes lets bridged packets pass the hooks of iptables or, where it is not "on", keeps them out: br_netfilter is on
// in every new namespace of a kernel that has it (net/bridge/br_netfilter_hooks.c, brnf_net_init).
func passes(netfilter string) []host.Step {
	var steps []host.Step
	for _, s := range bridgeNetfilter(netfilter) {
		steps = append(steps, s)
	}
	return steps
}

func bridgeNetfilter(state string) []host.Sysctl {
	value := "0"
	if state == on {
		value = "1"
	}
	var list []host.Sysctl
	for _, family := range []string{"ip", "ip6", "arp"} {
		list = append(list, host.Sysctl{
			Key: "net.bridge.bridge-nf-call-" + family + "tables", Value: value, IfPresent: state != on,
		})
	}
	return list
}

// unasked keeps the links that are made in a namespace from now on from having addresses of link scope of IPv6, and
// with them from asking for routers again and again (net/ipv6/addrconf.c, addrconf_rs_timer). A bridge passes each such
// question on to all of its ports: of a thousand containers that is a million packets each time.
func unasked(namespace string) host.Step {
	// IN6_ADDR_GEN_MODE_NONE, include/uapi/linux/if_link.h
	return host.Sysctl{NS: namespace, Key: "net.ipv6.conf.default.addr_gen_mode", Value: "1", IfPresent: true}
}

// withoutDAD lets the links that are made in a namespace from now on use their IPv6 addresses at once, those of link
// scope too. A host that forwards asks for its neighbours with such an address, and until it is sure that nobody else
// has it, which takes a second or two, it does not ask and drops the packet (net/ipv6/ndisc.c, ndisc_send_ns).
func withoutDAD(namespace string) host.Step {
	return host.Sysctl{NS: namespace, Key: "net.ipv6.conf.default.accept_dad", Value: "0", IfPresent: true}
}

// Orphans returns the step for a namespace in which programs have TCP connections to other namespaces. An orphaned
// connection is given up after one retry, which takes a second or two: it would otherwise keep a namespace alive for a
// minute and a half if the other end is gone (net/ipv4/tcp_timer.c, tcp_orphan_retries).
func Orphans(namespace string) host.Step {
	return host.Sysctl{NS: namespace, Key: "net.ipv4.tcp_orphan_retries", Value: "1"}
}

// Sockets returns the steps for a namespace in which sockets of workloads are opened: that of [Orphans], and those that
// keep TCP from reusing what earlier connections learned (Documentation/networking/ip-sysctl.rst).
func Sockets(namespace string) []host.Step {
	return []host.Step{
		host.Sysctl{NS: namespace, Key: "net.ipv4.tcp_slow_start_after_idle", Value: "0"},
		host.Sysctl{NS: namespace, Key: "net.ipv4.tcp_no_metrics_save", Value: "1"},
		Orphans(namespace),
	}
}

// Inside returns the steps for a container with a namespace of its own: those of [Sockets], and its ephemeral ports if
// it has its own.
func Inside(c Container) []host.Step {
	steps := Sockets(c.Name)
	if p := c.Ephemeral; p != (Ports{}) {
		// of both families
		steps = append(steps, host.Sysctl{
			NS: c.Name, Key: "net.ipv4.ip_local_port_range", Value: fmt.Sprintf("%d %d", p.First, p.Last),
		})
	}
	return steps
}
