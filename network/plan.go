package network

import (
	"fmt"

	"github.com/nettoll/nettoll/host"
)

// underlayBridge is the bridge of the underlay.
const underlayBridge = "under"

// Underlay returns the plan of the underlay: a bridge and a veth to each host, whose namespaces it calls "@host1", "@host2", …. The ends in
// the hosts have no addresses, [Base] adds them. The lab has more than one host.
func Underlay(lab Lab) host.Plan {
	steps := append(unfiltered(), host.Bridge{Name: underlayBridge, MAC: MAC(lab.Seed, "underlay", underlayBridge), MTU: lab.MTU})
	for _, h := range lab.Hosts {
		name := fmt.Sprintf("host%d", h.Index)
		steps = append(steps, withoutDAD("@"+name), host.Veth{
			Name: name, MAC: MAC(lab.Seed, "underlay", name), MTU: lab.MTU, Master: underlayBridge,
			PeerNS: "@" + name, PeerName: h.Uplink, PeerMAC: MAC(lab.Seed, name, h.Uplink),
		})
	}
	return host.Plan{Steps: steps}
}

// Base returns the steps that every network begins a host's plan with: the loopback link and the uplink with the lab's MTU, the
// uplink with the host's addresses on the underlay, no packet filter on bridges, and links that can be used at once.
func Base(lab Lab, h Host) []host.Step {
	steps := append(unfiltered(), withoutDAD(""), host.Link{Name: "lo", MTU: lab.MTU, Up: true})
	if h.Uplink != "" {
		v4, v6 := h.Underlay()
		steps = append(steps, host.Link{Name: h.Uplink, MTU: lab.MTU, Addresses: []string{v4.String(), v6.String()}, Up: true})
	}
	return steps
}

// unfiltered keeps bridged packets out of iptables: br_netfilter is on in every new namespace of a kernel that has it
// (net/bridge/br_netfilter_hooks.c, brnf_net_init).
func unfiltered() []host.Step {
	var steps []host.Step
	for _, family := range []string{"ip", "ip6", "arp"} {
		steps = append(steps, host.Sysctl{Key: "net.bridge.bridge-nf-call-" + family + "tables", Value: "0", IfPresent: true})
	}
	return steps
}

// withoutDAD lets the links that are made in a namespace from now on use their IPv6 addresses at once, those of link scope too. A host that forwards
// asks for its neighbours with such an address, and until it is sure that nobody else has it, which takes a second or two, it does not ask
// and drops the packet (net/ipv6/ndisc.c, ndisc_send_ns).
func withoutDAD(namespace string) host.Step {
	return host.Sysctl{NS: namespace, Key: "net.ipv6.conf.default.accept_dad", Value: "0", IfPresent: true}
}

// Sockets returns the steps for a namespace in which sockets of workloads are opened: what one connection has learnt is no
// business of the next (Documentation/networking/ip-sysctl.rst).
func Sockets(namespace string) []host.Step {
	return []host.Step{
		host.Sysctl{NS: namespace, Key: "net.ipv4.tcp_slow_start_after_idle", Value: "0"},
		host.Sysctl{NS: namespace, Key: "net.ipv4.tcp_no_metrics_save", Value: "1"},
	}
}
