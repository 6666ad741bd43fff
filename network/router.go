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
const notRouted = "its containers are neighbours on the underlay, which ends at a router (hint: underlay.hops=0, or " +
	"a network whose hosts route)"

// RefuseUnderlay returns why labs with that number of hosts cannot have a stack because of this underlay, "" if they
// can.
func RefuseUnderlay(s stack.Stack, hosts int, m Medium) string {
	n, params, ok := stack.PartOf[Network](s)
	if !ok || hosts < 2 || m.Routers() == 0 {
		return ""
	}
	lab := NewLab(hosts, MinMTU)
	lab.Params, lab.Underlay = params, m
	if onUnderlay(n, lab) {
		return fmt.Sprintf("network %s: %s", n.Describe().Name, notRouted)
	}
	return unfit(lab, s)
}

// RouterNamespaces returns the namespaces of the underlay that routers are in; "" is its own.
func (l Lab) RouterNamespaces() (list []string) {
	switch {
	case !l.Routed():
	case l.Underlay.Routers() == 1:
		list = []string{""}
	default:
		for _, h := range l.Hosts {
			list = append(list, fmt.Sprintf(routerName, h.Index))
		}
	}
	return list
}

// route says how a host reaches another one by its router.
func (l Lab) route(h Host, r *Reach) {
	_, _, v4, v6 := RoutedAddr(h.Index)
	r.Router4, r.Router6, r.MAC = v4.Addr(), v6.Addr(), MAC(l.Seed, "underlay", h.Name())
	if l.Underlay.Routers() > 1 {
		r.MAC = MAC(l.Seed, fmt.Sprintf(routerName, h.Index), routerDown)
	}
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

// routers returns the plan of an underlay with routers, as [Medium.Routers] has it. They know the ranges of containers
// only if nothing carries their packets.
func routers(n Network, lab Lab) host.Plan {
	if lab.Underlay.Routers() == 1 {
		return host.Plan{Steps: oneRouter(n, lab)}
	}
	return host.Plan{Steps: eachRouter(n, lab)}
}

// oneRouter returns the steps of a router that joins all hosts. It is the namespace of the underlay itself.
func oneRouter(n Network, lab Lab) []host.Step {
	steps := append(passes(off), forwarding("1")...)
	steps = append(steps, withoutDAD(""))
	for _, h := range lab.Hosts {
		_, _, router4, router6 := RoutedAddr(h.Index)
		link := lab.port(h, "")
		link.Addresses = []string{router4.String(), router6.String()}
		steps = append(steps, withoutDAD("@"+h.Name()), link)
		for _, s := range lab.Underlay.shape("@"+h.Name(), h.Uplink, h.Name(), lab.outer()) {
			steps = append(steps, s)
		}
		for _, to := range lab.behind(n, h) {
			steps = append(steps, host.Route{To: to.String(), Via: lab.at(h, to.Addr()).String(), Dev: h.Name()})
		}
	}
	return steps
}

// port returns the link of the underlay to a host. It is a port of that bridge, or of no bridge if that is "".
func (l Lab) port(h Host, bridge string) host.Veth {
	name := h.Name()
	return host.Veth{
		Name: name, MAC: MAC(l.Seed, "underlay", name), MTU: l.outer(), Master: bridge,
		PeerNS: "@" + name, PeerName: h.Uplink, PeerMAC: MAC(l.Seed, name, h.Uplink),
	}
}

// at returns the address of a host on the underlay, of the family of another one.
func (l Lab) at(h Host, like netip.Addr) netip.Addr {
	v4, v6 := l.Underlaid(h)
	if like.Is6() {
		return v6.Addr()
	}
	return v4.Addr()
}

// Names of what joins hosts that have a router each. The links of routers to their host and to the paths are called so
// in the router's namespace.
const (
	routerDown, routerUp = "down0", "up%d"
	routerName           = "router%d"
	edgeName             = "edge%d" // bridge between a host and its router
	pathName             = "path%d" // bridge between routers
	downPort, upPort     = "r%d", "p%dr%d"
)

// paths is how many there are between the routers of two hosts.
func (l Lab) paths() int { return max(1, l.Underlay.Paths) }

// pathAddr returns the addresses of the router of a host on a path: 198.18.0.H/24 and fd00:198:18::H/64 on the first,
// 198.18.255.H/24 and fd00:198:18:255::H/64 on the second. No host has such a range.
func pathAddr(path, host int) (v4, v6 netip.Prefix) {
	const last = 255
	n := last * path
	a := ipv6(digits(198), digits(18), 0, digits(host)).As16()
	a[6], a[7] = byte(digits(n)>>8), byte(digits(n))
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(n), byte(host)}), 24),
		netip.PrefixFrom(netip.AddrFrom16(a), 64)
}

// eachRouter returns the steps of a router for each host, in a namespace of its own, and of one bridge or two that join
// the routers. The links of hosts stay in the namespace of the underlay, where its tap listens: a bridge joins each to
// that of its router.
func eachRouter(n Network, lab Lab) []host.Step {
	steps := passes(off)
	bridge := func(name string) {
		steps = append(steps, host.Bridge{Name: name, MAC: MAC(lab.Seed, "underlay", name), MTU: lab.outer()})
	}
	for p := range lab.paths() {
		bridge(fmt.Sprintf(pathName, p))
	}
	for _, h := range lab.Hosts {
		ns, edge := fmt.Sprintf(routerName, h.Index), fmt.Sprintf(edgeName, h.Index)
		bridge(edge)
		steps = append(steps, withoutDAD("@"+h.Name()), lab.port(h, edge), host.Namespace{Name: ns})
		for _, s := range lab.Underlay.shape("@"+h.Name(), h.Uplink, h.Name(), lab.outer()) {
			steps = append(steps, s)
		}
		steps = append(steps, forwardingIn(ns, lab.paths())...)
		_, _, router4, router6 := RoutedAddr(h.Index)
		join := func(port, bridge, inner string, v4, v6 netip.Prefix) {
			steps = append(steps, host.Veth{
				Name: port, MAC: MAC(lab.Seed, "underlay", port), MTU: lab.outer(), Master: bridge,
				PeerNS: ns, PeerName: inner, PeerMAC: MAC(lab.Seed, ns, inner), PeerAddresses: []string{v4.String(), v6.String()},
			})
		}
		join(fmt.Sprintf(downPort, h.Index), edge, routerDown, router4, router6)
		for p := range lab.paths() {
			v4, v6 := pathAddr(p, h.Index)
			join(fmt.Sprintf(upPort, p, h.Index), fmt.Sprintf(pathName, p), fmt.Sprintf(routerUp, p), v4, v6)
		}
		for _, to := range lab.behind(n, h) {
			steps = append(steps, host.Route{
				NS: ns, To: to.String(), Via: lab.at(h, to.Addr()).String(), Dev: routerDown,
			})
		}
	}
	for _, h := range lab.Hosts {
		for _, other := range lab.Hosts {
			if other.Index == h.Index {
				continue
			}
			v4, v6 := lab.Underlaid(other)
			for _, to := range append([]netip.Prefix{v4.Masked(), v6.Masked()}, lab.behind(n, other)...) {
				steps = append(steps, lab.onPaths(h, other, to))
			}
		}
	}
	return steps
}

// forwardingIn returns the steps that make a namespace a router. With several paths, flows take them by the addresses,
// the protocol and the ports of their outermost headers, as in a router behind a wire. Policy 1 of the kernel does not:
// it takes the hash that the packet has already (net/ipv4/route.c, fib_multipath_hash), which sockets set and which
// stays with the packet from namespace to namespace, inside of tunnels too.
func forwardingIn(ns string, paths int) []host.Step {
	var steps []host.Step
	for _, s := range forwarding("1") {
		if s, ok := s.(host.Sysctl); ok {
			s.NS = ns
			steps = append(steps, s)
		}
	}
	steps = append(steps, withoutDAD(ns))
	if paths > 1 {
		// Documentation/networking/ip-sysctl.rst, fib_multipath_hash_policy and fib_multipath_hash_fields: source and
		// destination (0x3), protocol (0x4), ports (0x30)
		const policy, fields = "3", "55"
		for _, family := range []string{"ipv4", "ipv6"} {
			steps = append(steps,
				host.Sysctl{NS: ns, Key: "net." + family + ".fib_multipath_hash_fields", Value: fields},
				host.Sysctl{NS: ns, Key: "net." + family + ".fib_multipath_hash_policy", Value: policy})
		}
	}
	return steps
}

// onPaths returns the route of the router of a host to a range behind that of another one.
func (l Lab) onPaths(h, other Host, to netip.Prefix) host.Step {
	hops := make([]host.NextHop, l.paths())
	for p := range hops {
		v4, v6 := pathAddr(p, other.Index)
		hops[p] = host.NextHop{Via: v4.Addr().String(), Dev: fmt.Sprintf(routerUp, p)}
		if to.Addr().Is6() {
			hops[p].Via = v6.Addr().String()
		}
	}
	ns := fmt.Sprintf(routerName, h.Index)
	if len(hops) == 1 {
		return host.Route{NS: ns, To: to.String(), Via: hops[0].Via, Dev: hops[0].Dev}
	}
	return host.Multipath{NS: ns, To: to.String(), Hops: hops}
}

// behind returns the ranges that routers reach by a host, besides its own on the underlay: those of containers whose
// packets nothing carries.
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

// routed adds that the packets go over the underlay, by its routers.
func (w *Way) routed(t Trip, target netip.Addr) {
	from, to := t.From.Host, t.To.Host
	w.Sent(from, "", from.Uplink, "")
	w.Ports = append(w.Ports, from.Name())
	if t.Lab.Underlay.Routers() == 1 {
		w.byRouter(t, target)
	} else {
		w.byRouters(t, target)
	}
	w.Received(to, "", to.Uplink, "")
}

// byRouter adds that the packets pass the router of all hosts.
func (w *Way) byRouter(t Trip, target netip.Addr) {
	var under Host
	from, to := t.From.Host, t.To.Host
	family := "ipv4"
	if target.Is6() {
		family = "ipv6"
	}
	w.hop(under.Index, host.Hop{To: target}, host.Next{
		Link: to.Name(), Via: t.Lab.at(to, target), MAC: MAC(t.Lab.Seed, to.Name(), to.Uplink),
	})
	w.Received(under, "", from.Name(), "")
	w.Counters = append(w.Counters, Count{Host: under.Index, Counter: host.Forwarded(family)})
	w.Sent(under, "", to.Name(), "")
}

// byRouters adds that the packets pass the routers of both hosts. Which of several paths they take between them is not
// said.
func (w *Way) byRouters(t Trip, target netip.Addr) {
	var under Host
	from, to := t.From.Host, t.To.Host
	near, far := fmt.Sprintf(routerName, from.Index), fmt.Sprintf(routerName, to.Index)
	w.Received(under, "", from.Name(), fmt.Sprintf(edgeName, from.Index))
	w.Sent(under, "", fmt.Sprintf(downPort, from.Index), fmt.Sprintf(edgeName, from.Index))
	w.Received(under, near, routerDown, "")
	if t.Lab.paths() == 1 {
		up, bridge := fmt.Sprintf(routerUp, 0), fmt.Sprintf(pathName, 0)
		v4, v6 := pathAddr(0, to.Index)
		via := v4.Addr()
		if target.Is6() {
			via = v6.Addr()
		}
		w.hop(under.Index, host.Hop{NS: near, To: target}, host.Next{Link: up, Via: via, MAC: MAC(t.Lab.Seed, far, up)})
		w.Sent(under, near, up, "")
		w.Received(under, "", fmt.Sprintf(upPort, 0, from.Index), bridge)
		w.Sent(under, "", fmt.Sprintf(upPort, 0, to.Index), bridge)
		w.Received(under, far, up, "")
	}
	w.hop(under.Index, host.Hop{NS: far, To: target}, host.Next{
		Link: routerDown, Via: t.Lab.at(to, target), MAC: MAC(t.Lab.Seed, to.Name(), to.Uplink),
	})
	w.Sent(under, far, routerDown, "")
	w.Received(under, "", fmt.Sprintf(downPort, to.Index), fmt.Sprintf(edgeName, to.Index))
	w.Sent(under, "", to.Name(), fmt.Sprintf(edgeName, to.Index))
}
