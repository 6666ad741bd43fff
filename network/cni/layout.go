package cni

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
)

// layout is a conflist as it is on one host of a lab.
type layout struct {
	conf *conflist
	lab  network.Lab
	on   network.Host
	own  bool // the conflist is the user's
	kind string
	// v4 and v6 are the ranges of containers.
	v4, v6 []addresses
}

// lay returns the conflist on a host: with ranges of the host's own, and with ranges of both families.
func lay(c *conflist, lab network.Lab, h network.Host) (*layout, error) {
	l := &layout{conf: c.clone(), lab: lab, on: h, own: own(lab.Params) != "", kind: c.kind()}
	gate4, gate6 := network.Gateway(h.Index)
	first4, first6 := network.ContainerAddr(h.Index, 0)
	if onSegment(l.kind) {
		gate4, gate6 = network.UnderlayAddr(h.Index)
		first4, first6 = network.SegmentAddr(h.Index, 0)
	}
	usual := func(gate, first netip.Prefix) []addresses {
		return []addresses{{subnet: gate.Masked(), start: first.Addr(), end: last(gate), gateway: gate.Addr()}}
	}
	l.v4, l.v6 = usual(gate4, first4), usual(gate6, first6)
	for _, set := range c.sets {
		if !onSegment(l.kind) {
			var err error
			if set, err = moved(set, h.Index-1); err != nil {
				return nil, err
			}
		}
		if set[0].subnet.Addr().Is4() {
			l.v4 = set
		} else {
			l.v6 = set
		}
	}
	if c.flannel() {
		l.v6 = nil // Flannel has none unless it is told so
	}
	under4, under6 := network.UnderlayAddr(h.Index)
	for _, r := range slices.Concat(l.v4, l.v6) {
		if len(c.sets) > 0 && len(lab.Hosts) > 1 && (r.subnet.Overlaps(under4) || r.subnet.Overlaps(under6)) {
			return nil, fmt.Errorf("subnet %s of the conflist is that of the underlay (%s, %s)", r.subnet, under4.Masked(),
				under6.Masked())
		}
	}
	l.write()
	return l, nil
}

// write puts the ranges into the conflist, and what both families need.
func (l *layout) write() {
	first, ipam := l.conf.first(), l.conf.ipam()
	if l.conf.flannel() { // the plugin has the range and the MTU from flanneld
		first["ipam"] = object{"type": hostLocal}
		return
	}
	for _, old := range []string{"subnet", "rangeStart", "rangeEnd", "gateway"} {
		delete(ipam, old)
	}
	ipam["ranges"] = write([][]addresses{l.v4, l.v6})
	if routes, some := ipam["routes"].([]any); some && l.conf.gated() {
		for _, to := range []string{"0.0.0.0/0", "::/0"} {
			if !hasRoute(routes, to) {
				routes = append(routes, object{"dst": to})
			}
		}
		ipam["routes"] = routes
	}
	if l.joined() || l.kind == tap || onSegment(l.kind) && l.kind != hostDevice {
		first["mtu"] = l.lab.MTU
	}
}

func hasRoute(routes []any, to string) bool {
	for _, r := range routes {
		if r, ok := r.(object); ok && text(r, "dst") == to {
			return true
		}
	}
	return false
}

// serves are the ranges of the host's containers.
func (l *layout) serves() []netip.Prefix {
	var list []netip.Prefix
	for _, set := range [][]addresses{l.v4, l.v6} {
		for _, r := range set {
			list = append(list, r.subnet)
		}
	}
	return list
}

// addresses returns those of a container.
func (l *layout) addresses(c network.Container) (v4, v6 netip.Prefix, err error) {
	if onSegment(l.kind) && len(l.conf.sets) == 0 {
		v4, v6 = network.SegmentAddr(l.on.Index, c.Index)
		return v4, v6, nil
	}
	i := c.Index
	if onSegment(l.kind) { // all hosts have the same ranges
		for _, h := range l.lab.Hosts[:l.on.Index-1] {
			i += len(h.Containers)
		}
	}
	if v4, err = pick(l.v4, i); err != nil || l.v6 == nil {
		return v4, v6, err
	}
	v6, err = pick(l.v6, i)
	return v4, v6, err
}

// joined says whether the plugin makes a link of the host to each container.
func (l *layout) joined() bool { return l.kind == bridge || l.kind == ptp }

// bridged says whether each container has a port of a bridge.
func (l *layout) bridged() bool { return l.kind == bridge || l.kind == tap }

// build returns the steps of the host and the endpoints of its containers.
func (l *layout) build() ([]host.Step, []network.Endpoint, error) {
	lab, h := l.lab, l.on
	steps := network.Base(lab, h)
	if l.kind == ptp || l.bridged() && len(lab.Hosts) > 1 {
		steps = append(steps, network.Forwarding()...)
	} else {
		steps = append(steps, network.NoForwarding()...)
	}
	if l.conf.flannel() {
		before, err := l.daemons()
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, before...)
	}
	lower, made, err := l.below()
	if err != nil {
		return nil, nil, err
	}
	steps = append(steps, made...)
	if l.bridged() && len(h.Containers) > network.MaxPorts {
		return nil, nil, fmt.Errorf("host %d: %d containers, but a bridge has at most %d ports", h.Index, len(h.Containers),
			network.MaxPorts)
	}
	if l.kind == tap {
		steps = append(steps, host.Bridge{
			Name: network.Bridge, MAC: l.mac(network.Bridge), MTU: lab.MTU, Snooping: true, Addresses: l.gates(),
		})
	}
	relay := Relay{Bridge: network.Bridge, MTU: lab.MTU, MultiQueue: on(l.conf.first(), "multiQueue")}
	ends := make([]network.Endpoint, len(h.Containers))
	for i, c := range h.Containers {
		v4, v6, err := l.addresses(c)
		if err != nil {
			return nil, nil, err
		}
		ends[i] = network.Endpoint{Namespace: c.Name, IPv4: v4.Addr(), IPv6: v6.Addr(), Inner: network.Inner}
		a := Add{
			Container: c.Name, Bin: folders(lab.Params), Addresses: []string{v4.String()}, MTU: lab.MTU, Trial: i == 0,
		}
		if v6.IsValid() {
			a.Addresses = append(a.Addresses, v6.String())
		}
		switch {
		case l.joined():
			if a.Link, err = network.Outer(h, c); err != nil {
				return nil, nil, err
			}
			ends[i].Link, ends[i].MAC = a.Link, l.mac(c.Name, network.Inner)
			a.LinkMAC, a.MAC = l.mac(a.Link), ends[i].MAC
		case l.kind == macvlan:
			a.MAC = l.mac(c.Name, network.Inner)
		case l.kind == tap:
			if ends[i].Link, err = network.Outer(h, c); err != nil {
				return nil, nil, err
			}
			a.MAC = l.mac(c.Name, network.Inner)
			ends[i].MAC = a.MAC
			relay.Ports = append(relay.Ports, Port{Container: c.Name, Link: ends[i].Link, MAC: l.mac(ends[i].Link)})
		}
		if l.kind == bridge && i == 0 {
			a.Bridge, a.BridgeMAC = l.conf.bridgeName(), l.mac(l.conf.bridgeName())
		}
		a.Gateways = l.gateways(i)
		if l.conf.has(portmap) {
			a.Port = c.Ports.First
		}
		if a.Conf, err = l.of(c, lower, a.Addresses); err != nil {
			return nil, nil, err
		}
		steps = append(steps,
			// its links can be used at once
			host.Sysctl{NS: c.Name, Key: "net.ipv6.conf.default.accept_dad", Value: "0", IfPresent: true}, a)
		steps = append(steps, network.Inside(c)...)
	}
	if relay.Ports != nil {
		steps = append(steps, relay)
	}
	return steps, ends, nil
}

// gateways are the addresses that the plugin gives the host for container i, nil for none: the bridge has them once.
func (l *layout) gateways(i int) []string {
	switch {
	case l.kind == bridge && i == 0 && (l.conf.flannel() || on(l.conf.first(), "isGateway") ||
		on(l.conf.first(), "isDefaultGateway")):
		return l.gates()
	case l.kind != ptp:
		return nil
	}
	var list []string
	for _, set := range [][]addresses{l.v4, l.v6} {
		if len(set) > 0 {
			list = append(list, netip.PrefixFrom(set[0].gateway, set[0].gateway.BitLen()).String())
		}
	}
	return list
}

// gates are the addresses of the bridge as the gateway of containers.
func (l *layout) gates() []string {
	var list []string
	for _, set := range [][]addresses{l.v4, l.v6} {
		if len(set) > 0 {
			list = append(list, netip.PrefixFrom(set[0].gateway, set[0].subnet.Bits()).String())
		}
	}
	return list
}

// mac is the address of a link of the host, or of a container on it.
func (l *layout) mac(name ...string) string {
	return network.MAC(l.lab.Seed, append([]string{l.on.Name()}, name...)...)
}

// below returns the link below that of each container, nil if there is none, and the steps that make them.
func (l *layout) below() (lower []string, steps []host.Step, err error) {
	switch l.kind {
	case hostDevice, vlan:
		return network.Plugs(l.lab, l.on, l.kind == hostDevice)
	case macvlan, ipvlan:
		one, steps := network.Below(l.lab, l.on)
		for range l.on.Containers {
			lower = append(lower, one)
		}
		return lower, steps, nil
	}
	return nil, nil, nil
}

// of returns the conflist for a container: with its link below, and the addresses that the IPAM is asked for.
func (l *layout) of(c network.Container, lower, addresses []string) (string, error) {
	mine := l.conf.clone()
	first := mine.maker()
	if lower != nil {
		name := "master"
		if l.kind == hostDevice {
			name = "device"
			for _, other := range []string{"hwaddr", "kernelpath", "pciBusID"} { // by which else it is found
				delete(first, other)
			}
		}
		first[name] = lower[c.Index]
	}
	args, _ := first["args"].(object)
	if args == nil {
		args = object{}
	}
	theirs, _ := args["cni"].(object)
	if theirs == nil {
		theirs = object{}
	}
	var ips []any
	for _, a := range addresses {
		ip, _, _ := strings.Cut(a, "/")
		ips = append(ips, ip)
	}
	theirs["ips"] = ips
	args["cni"] = theirs
	first["args"] = args
	return mine.JSON()
}

// trace returns the way of a trip that begins on the host.
func (l *layout) trace(t network.Trip) network.Way {
	var w network.Way
	at := func(s network.Stop, name ...string) string {
		return network.MAC(t.Lab.Seed, append([]string{s.Host.Name()}, name...)...)
	}
	theirs := at(t.To, t.To.Container.Name, network.Inner)
	from, to := t.From.Endpoint, t.To.Endpoint
	gate := l.v4[0].gateway
	if t.Family == "ipv6" && l.v6 != nil {
		gate = l.v6[0].gateway
	}
	switch l.kind {
	case bridge, tap:
		name := l.conf.bridgeName()
		if l.kind == tap {
			w.Sent(t.From.Host, from.Namespace, from.Inner, "")
			w.Received(t.To.Host, to.Namespace, to.Inner, "")
		}
		w.Received(t.From.Host, "", from.Link, name)
		if t.Same() {
			w.Leave(t, t.Target(), theirs)
			w.NotForwarded(t)
		} else {
			w.Leave(t, gate, at(t.From, name))
			w.Forwarded(t)
			w.Carried(t)
			w.Arrive(t, name, theirs)
		}
		w.Sent(t.To.Host, "", to.Link, name)
	case ptp:
		w.Leave(t, gate, at(t.From, from.Link))
		w.Received(t.From.Host, "", from.Link, "")
		w.Forwarded(t)
		if !t.Same() {
			w.Carried(t)
		}
		w.Sent(t.To.Host, "", to.Link, "")
		w.Arrive(t, to.Link, theirs)
	case macvlan, ipvlan:
		if l.kind == ipvlan {
			lower, _ := network.Below(t.Lab, t.To.Host)
			theirs = at(t.To, lower)
		}
		w.Leave(t, t.Target(), theirs)
		l.direct(&w, t)
		if !t.Same() {
			w.Across(t)
		}
	case hostDevice, vlan:
		w.Leave(t, t.Target(), at(t.To, network.SwitchPort(t.To.Container)))
		l.direct(&w, t)
		w.Plugged(t)
		if l.kind == vlan {
			w.Sent(t.From.Host, "", network.SwitchPort(t.From.Container), "")
			w.Received(t.To.Host, "", network.SwitchPort(t.To.Container), "")
		}
	default:
		l.direct(&w, t)
	}
	return w
}

// direct adds that packets leave and arrive by the containers' own links, and that hosts do not forward them if the
// plugin is known not to have it so.
func (l *layout) direct(w *network.Way, t network.Trip) {
	w.Sent(t.From.Host, t.From.Endpoint.Namespace, t.From.Endpoint.Inner, "")
	w.Received(t.To.Host, t.To.Endpoint.Namespace, t.To.Endpoint.Inner, "")
	if onSegment(l.kind) {
		w.NotForwarded(t)
	}
}

// mappings are what the plugin "portmap" publishes of a container.
func mappings(port uint16) []any {
	var list []any
	for _, protocol := range []string{"tcp", "udp"} {
		list = append(list, object{"hostPort": int(port), "containerPort": int(port), "protocol": protocol})
	}
	return list
}
