package network

import (
	"fmt"
	"net/netip"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/stack"
)

// Limits of an underlay with routers.
const (
	// MaxHops is the number of routers between two hosts: that of each of them.
	MaxHops = 2
	// MaxPaths is the number of paths between the routers of two hosts.
	MaxPaths = 2
)

// Routers returns how many routers packets pass between two hosts. Without any, all hosts are neighbours. With one, it
// joins all hosts. With two, each host has a router of its own, which reaches the others by one or two bridges.
func (m Medium) Routers() int {
	if m.Paths > 1 {
		return max(m.Hops, MaxHops)
	}
	return m.Hops
}

// Routed says whether routers join the hosts of the lab. Each host is then alone in its range of the underlay.
func (l Lab) Routed() bool { return len(l.Hosts) > 1 && l.Underlay.Routers() > 0 }

// RoutedAddr returns the addresses of a host on an underlay with routers, and those of its router: 198.18.H.2/24,
// fd00:198:18:H::2/64, 198.18.H.1/24 and fd00:198:18:H::1/64.
func RoutedAddr(host int) (v4, v6, router4, router6 netip.Prefix) {
	at := func(n byte) (netip.Prefix, netip.Prefix) {
		a := ipv6(digits(198), digits(18), 0, uint16(n)).As16()
		a[6], a[7] = byte(digits(host)>>8), byte(digits(host))
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(host), n}), 24),
			netip.PrefixFrom(netip.AddrFrom16(a), 64)
	}
	router4, router6 = at(1)
	v4, v6 = at(2)
	return v4, v6, router4, router6
}

// Underlaid returns the addresses of a host on the underlay. They are not valid in a lab of one host.
func (l Lab) Underlaid(h Host) (v4, v6 netip.Prefix) {
	if l.Routed() {
		v4, v6, _, _ = RoutedAddr(h.Index)
		return v4, v6
	}
	return h.Underlay()
}

// notRouted is why the containers of some networks cannot be on an underlay with routers.
const notRouted = "its containers are neighbours on the underlay, which ends at a router (hint: underlay.hops=0, or a " +
	"network whose hosts route)"

// RefuseUnderlay returns why labs with that number of hosts and this underlay cannot have the network of a stack, ""
// if they can.
func RefuseUnderlay(s stack.Stack, hosts int, m Medium) string {
	n, params, ok := stack.PartOf[Network](s)
	if !ok || hosts < 2 || m.Routers() == 0 {
		return ""
	}
	lab := NewLab(hosts, MinMTU)
	lab.Params, lab.Underlay = params, m
	if len(Serves(n, lab, lab.Hosts[0])) == 0 {
		return fmt.Sprintf("network %s: %s", n.Describe().Name, notRouted)
	}
	return ""
}

// route says how a host reaches another one by its router.
func (l Lab) route(h Host, r *Reach) {
	_, _, v4, v6 := RoutedAddr(h.Index)
	r.Router4, r.Router6, r.MAC = v4.Addr(), v6.Addr(), MAC(l.Seed, "underlay", h.Name())
}

// toRouter returns the routes of a host to all others on the underlay.
func toRouter(h Host) []host.Step {
	_, _, router4, router6 := RoutedAddr(h.Index)
	all4, all6 := UnderlayAddr(h.Index)
	return []host.Step{
		host.Route{To: all4.Masked().String(), Via: router4.Addr().String(), Dev: h.Uplink},
		host.Route{To: all6.Masked().String(), Via: router6.Addr().String(), Dev: h.Uplink},
	}
}

// routers returns the plan of an underlay with one router: its own namespace, which forwards both families between a
// veth to each host. It knows the ranges of containers only if nothing carries their packets.
func routers(n Network, lab Lab) host.Plan {
	steps := append(passes(off), forwarding("1")...)
	steps = append(steps, withoutDAD(""))
	for _, h := range lab.Hosts {
		name := h.Name()
		_, _, router4, router6 := RoutedAddr(h.Index)
		steps = append(steps, withoutDAD("@"+name), host.Veth{
			Name: name, MAC: MAC(lab.Seed, "underlay", name), MTU: lab.outer(),
			Addresses: []string{router4.String(), router6.String()},
			PeerNS:    "@" + name, PeerName: h.Uplink, PeerMAC: MAC(lab.Seed, name, h.Uplink),
		})
		for _, s := range lab.Underlay.shape("@"+name, h.Uplink, name, lab.outer()) {
			steps = append(steps, s)
		}
		for _, to := range lab.behind(n, h) {
			at4, at6 := lab.Underlaid(h)
			via := at4.Addr()
			if to.Addr().Is6() {
				via = at6.Addr()
			}
			steps = append(steps, host.Route{To: to.String(), Via: via.String(), Dev: name})
		}
	}
	return host.Plan{Steps: steps}
}

// behind are the ranges that routers reach by a host, besides its own on the underlay: those of containers whose packets
// nothing carries.
func (l Lab) behind(n Network, h Host) []netip.Prefix {
	if len(l.Spans) > 1 {
		return nil
	}
	var list []netip.Prefix
	v4, v6 := l.Underlaid(h)
	for _, to := range Serves(n, l, h) {
		if to.Addr() != v4.Addr() && to.Addr() != v6.Addr() {
			list = append(list, to)
		}
	}
	return list
}

// routed adds that the packets go over the underlay, by its router.
func (w *Way) routed(t Trip, target netip.Addr) {
	from, to := t.From.Host, t.To.Host
	family := "ipv4"
	own4, own6 := t.Lab.Underlaid(to)
	via := own4.Addr()
	if target.Is6() {
		family, via = "ipv6", own6.Addr()
	}
	w.Sent(from, "", from.Uplink, "")
	w.Ports = append(w.Ports, from.Name())
	w.hop(0, host.Hop{To: target}, host.Next{Link: to.Name(), Via: via, MAC: MAC(t.Lab.Seed, to.Name(), to.Uplink)})
	w.Counters = append(w.Counters, Count{Counter: host.Received("", from.Name(), "")},
		Count{Counter: host.Forwarded(family)}, Count{Counter: host.Sent("", to.Name(), "")})
	w.Received(to, "", to.Uplink, "")
}
