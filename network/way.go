package network

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/host"
)

// A Tracer is a network that can tell which way the packets of its containers take, so that a lab can prove it. Every
// network of the catalogue is one.
type Tracer interface {
	// Trace returns the way of a trip. It is pure.
	Trace(t Trip) Way
}

// A Trip is a flow of packets of one family from one container of a lab to another.
type Trip struct {
	Lab Lab
	// Family is "ipv4" or "ipv6".
	Family   string
	From, To Stop
}

// A Stop is a container of a lab, on its host.
type Stop struct {
	Host      Host
	Container Container
	Endpoint  Endpoint
}

// A Way lists what the packets of a trip pass.
type Way struct {
	// Hops are where its packets are given to a neighbour: each goes to the link, the address and the MAC address that the
	// plan has for it.
	Hops []Hop
	// Counters count each of its packets at least once. A large segment is one packet.
	Counters []Count
	// Merged is how many of its packets may be counted as one, because a carrier joins them; 0: each is counted.
	Merged int
	// Still are counters that none of its packets moves, and nothing else in the lab does.
	Still []Count
	// Avoided are counters that none of its packets moves. Strays of the lab may.
	Avoided []Count
	// Ports are those of the underlay's switch that receive its packets: none on one host.
	Ports []string
}

// A Hop says where packets leave a namespace, and where the plan sends them. An empty MAC address is not compared: the
// link has none, or it is not known in advance.
type Hop struct {
	Host int // from 1
	host.Hop
	Next host.Next
}

// A Count is a counter of a host.
type Count struct {
	Host int // from 1; 0: the underlay
	host.Counter
	// Repeats says that it may count a packet more than once, as a switch does that looks at a packet again when it knows
	// its connection.
	Repeats bool
	// Others says that it also counts packets that no container sends, such as those of a carrier itself.
	Others bool
}

// Same says whether both containers are on one host.
func (t Trip) Same() bool { return t.From.Host.Index == t.To.Host.Index }

// Pick returns the address of the trip's family.
func (t Trip) Pick(v4, v6 netip.Prefix) netip.Addr {
	if t.Family == "ipv6" {
		return v6.Addr()
	}
	return v4.Addr()
}

// Target is the address that the packets have as their destination when they leave the container.
func (t Trip) Target() netip.Addr { return t.To.Endpoint.Public(t.Family) }

// Leave adds that the container gives its packets to a neighbour on its own link.
func (w *Way) Leave(t Trip, via netip.Addr, mac string) {
	w.hop(t.From.Host.Index, host.Hop{NS: t.From.Endpoint.Namespace, From: t.From.Endpoint.Bind(t.Family), To: t.Target()},
		host.Next{Link: t.From.Endpoint.Inner, Via: via, MAC: mac})
}

// Arrive adds that the host of the destination gives the packets to the container through a link of its own.
func (w *Way) Arrive(t Trip, link, mac string) {
	to := t.To.Endpoint.Bind(t.Family)
	w.hop(t.To.Host.Index, host.Hop{To: to}, host.Next{Link: link, Via: to, MAC: mac})
}

func (w *Way) hop(on int, h host.Hop, next host.Next) { w.Hops = append(w.Hops, Hop{on, h, next}) }

// Received adds that a link receives the packets: of the namespace ns of a host, as a port of master ("" for none).
func (w *Way) Received(h Host, ns, link, master string) {
	w.Counters = append(w.Counters, Count{Host: h.Index, Counter: host.Received(ns, link, master)})
}

// Sent adds that a link sends the packets, as [Way.Received] does.
func (w *Way) Sent(h Host, ns, link, master string) {
	w.Counters = append(w.Counters, Count{Host: h.Index, Counter: host.Sent(ns, link, master)})
}

// Counted adds a counter of a step, which may count a packet more than once.
func (w *Way) Counted(h Host, name string) {
	w.Counters = append(w.Counters, Count{Host: h.Index, Counter: host.Counter{Name: name}, Repeats: true})
}

// CountedOnce adds a counter of a step that counts each packet once.
func (w *Way) CountedOnce(h Host, name string) {
	w.Counters = append(w.Counters, Count{Host: h.Index, Counter: host.Counter{Name: name}})
}

// Forwarded adds that the network stacks of all hosts on the way forward the packets.
func (w *Way) Forwarded(t Trip) {
	w.Counters = append(w.Counters, forwarded(t)...)
}

// NotForwarded adds that the network stacks of the hosts do not forward the packets.
func (w *Way) NotForwarded(t Trip) {
	w.Still = append(w.Still, forwarded(t)...)
}

func forwarded(t Trip) []Count {
	list := []Count{{Host: t.From.Host.Index, Counter: host.Forwarded(t.Family)}}
	if !t.Same() {
		list = append(list, Count{Host: t.To.Host.Index, Counter: host.Forwarded(t.Family)})
	}
	return list
}

// Across adds that the packets go over the underlay, from uplink to uplink.
func (w *Way) Across(t Trip) {
	from, to := t.From.Host, t.To.Host
	w.Sent(from, "", from.Uplink, "")
	w.Switched(from.Name(), to.Name())
	w.Received(to, "", to.Uplink, "")
}

// Switched adds that the switch of the underlay passes the packets from one of its ports to another.
func (w *Way) Switched(from, to string) {
	w.Ports = append(w.Ports, from)
	w.Counters = append(w.Counters, Count{Host: 0, Counter: host.Received("", from, underlayBridge)},
		Count{Host: 0, Counter: host.Sent("", to, underlayBridge)})
}

// Carried adds that the host of the source gives the packets to the other host on the uppermost span of the lab, as
// [Routes] has it, and that each span below carries those of the one above.
func (w *Way) Carried(t Trip) {
	from, to := t.From.Host, t.To.Host
	target := t.Target()
	for i, s := range slices.Backward(t.Lab.spans()) {
		if s.Addressed { // the link and the addresses are those of the span below
			continue
		}
		there, back := s.Reach[from.Index-1][to.Index-1], s.Reach[to.Index-1][from.Index-1]
		// else the span above gives its frames to the link, by no route, or a bridge does
		if target.IsValid() && s.Secluded.NS == "" {
			w.hop(from.Index, host.Hop{To: target}, host.Next{Link: there.Link, Via: there.Next(target), MAC: there.MAC})
		}
		if i == 0 {
			break
		}
		w.Merged = max(w.Merged, s.Merged)
		if there.Sent != "" {
			w.Counted(from, there.Sent)
		}
		if there.Sent == "" || s.Layer == 2 {
			w.Sent(from, s.Secluded.NS, there.Link, s.Secluded.Bridge)
		}
		if back.Received != "" {
			w.Counted(to, back.Received)
		}
		if back.Received == "" || s.Layer == 2 {
			w.Received(to, s.Secluded.NS, back.Link, s.Secluded.Bridge)
		}
		below := t.Lab.Spans[i-1].Reach[from.Index-1][to.Index-1]
		switch target = below.IPv4; s.Outer {
		case "ipv6":
			target = below.IPv6
		case "":
			target = netip.Addr{}
		}
	}
	above := len(w.Counters)
	if t.Lab.Routed() {
		w.routed(t, target)
	} else {
		w.Across(t)
	}
	for i := range w.Counters[above:] {
		w.Counters[above+i].Others = len(t.Lab.spans()) > 1 // keys, probes, acknowledgements of the carriers
	}
}

// Bridged returns the way between containers that [Bridged] joins; routed is as there.
func (t Trip) Bridged(routed bool) Way {
	var w Way
	at := func(s Stop) string { return MAC(t.Lab.Seed, s.Host.Name(), s.Container.Name, Inner) }
	if routed {
		w.Leave(t, t.Pick(Gateway(t.From.Host.Index)), MAC(t.Lab.Seed, t.From.Host.Name(), Bridge))
	} else {
		w.Leave(t, t.Target(), at(t.To))
	}
	w.Received(t.From.Host, "", t.From.Endpoint.Link, Bridge)
	if routed {
		w.Forwarded(t)
	} else {
		w.NotForwarded(t)
	}
	if !t.Same() {
		w.Carried(t)
	}
	w.Sent(t.To.Host, "", t.To.Endpoint.Link, Bridge)
	if routed {
		w.Arrive(t, Bridge, at(t.To))
	}
	return w
}

// Plugged adds that the packets leave and arrive by links of the containers' own that [Plugs] or [Underlay] have made:
// from port to port of a switch.
func (w *Way) Plugged(t Trip) {
	if t.Same() {
		w.Received(t.From.Host, "", fmt.Sprintf(jackName, t.From.Container.Name), Switch)
		w.Sent(t.To.Host, "", fmt.Sprintf(jackName, t.To.Container.Name), Switch)
		return
	}
	jack := func(s Stop) string { return fmt.Sprintf(underlayJack, s.Host.Name(), s.Container.Index) }
	w.Switched(jack(t.From), jack(t.To))
}
