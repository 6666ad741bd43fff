package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/stack"
)

// A Span joins the hosts of a lab: it is the underlay, or what a [Carrier] makes on the span below. It holds everything
// that the next layer needs to know about it.
type Span struct {
	// Name is "underlay", or the name of the part that makes it: "vxlan".
	Name string
	// Layer is 2 if the span carries Ethernet frames, and 3 if it carries IP packets.
	Layer int
	// MTU in bytes: the largest IP packet that it carries whole.
	MTU int
	// Overhead is what its packets have besides on the span below. The underlay has none.
	Overhead Overhead
	// Outer is the family, "ipv4" or "ipv6", of its packets on the span below; "" if these are no packets of IP but
	// frames, and of the underlay.
	Outer string
	// Wire are the protocols that its packets, and those that it needs besides, are of on the span below: none of the
	// underlay.
	Wire []Protocol
	// Besides are protocols that hosts talk on the span below, and that carry nothing of containers.
	Besides []Protocol
	// Protected says that nobody can read on the span below what it carries, and Cipher by what: "ChaCha20-Poly1305".
	Protected bool
	Cipher    string
	// Guards are what else it protects from somebody on the span below.
	Guards Guards
	// Reach[i][j] says how host i+1 reaches host j+1. Reach[i][i] is host i+1 itself.
	Reach [][]Reach
	// Addressed says that the span has no link of its own: it protects what hosts send each other from the addresses and
	// by the link of the span below. It needs a tunnel of the kernel on it: what containers send has other addresses.
	// What does not send by the kernel's IP must refuse to stand on it.
	Addressed bool
	// Secluded is where its links are. The zero value means in the hosts' own namespaces.
	Secluded Seclusion
	// Merged is the number of packets that it may send, or hand on, as one large segment: counters on the way count that
	// once. 0 if devices count each packet.
	Merged int
	// Steps make it, by host, on the span below. The underlay has none: [Underlay] and [Base] make it.
	Steps [][]host.Step
}

// A Seclusion is where the links of a span are that no route of a host leads to.
type Seclusion struct {
	// NS is the namespace on each host, and Bridge the bridge there of which the links are ports.
	NS, Bridge string
}

// An Overhead is the number of bytes that a carrier adds to each packet.
type Overhead struct {
	Bytes int
	// Source says what they are and where that stands: "20 IPv4, 8 UDP, 8 VXLAN, 14 Ethernet (RFC 7348, section 5)".
	Source string
	// Padding is the block size in bytes to whose multiples packets are padded besides, 0 if they are not. The largest
	// packet that the span carries has none.
	Padding int
	// Trailer is the number of bytes of each packet that are padded together with it, such as the two of ESP at the end
	// (RFC 4303, section 2). With a trailer, the largest packet is one that needs no padding.
	Trailer int
	// Header is the number of bytes at the beginning of each packet that stay in front, and are not padded: its IP header,
	// for ESP in transport mode (RFC 4303, section 3.1.1).
	Header int
	// Limit is the length in bytes of the largest packet that the carrier takes, however much the span below does. 0 means
	// that it has no limit of its own.
	Limit int
}

// On returns the length on the span below of a packet of that length, which the span carries whole.
func (o Overhead) On(packet, mtu int) int {
	packet, mtu = packet-o.Header+o.Trailer, mtu-o.Header+o.Trailer
	if o.Padding > 0 {
		packet = min(mtu, (packet+o.Padding-1)/o.Padding*o.Padding)
	}
	return packet + o.Header + o.Bytes
}

// Largest returns the length of the largest packet whose length on the span below is no more than that.
func (o Overhead) Largest(below int) int {
	left := below - o.Bytes - o.Header
	if o.Limit > 0 {
		left = min(left, o.Limit-o.Header+o.Trailer)
	}
	if o.Padding > 0 && o.Trailer > 0 {
		left -= left % o.Padding
	}
	return left - o.Trailer + o.Header
}

// A Protocol is what a packet is on its way between hosts.
type Protocol struct {
	Name   string // as its RFC has it: "VXLAN"
	Number int    // of what IP carries (IANA, Protocol Numbers); without IP, the EtherType: 0x600 or more
	Port   int    // as in [host.Wire]; 0: the protocol has none
	Last   int    // of a range of such ports that begins with Port; 0: there is only that one
}

// String says it with what tells it on the wire: "VXLAN (UDP to port 4789)", "OpenVPN (UDP to ports 1194 to 1196)",
// "MACsec (EtherType 0x88e5)".
func (p Protocol) String() string {
	if p.Number >= leastEtherType {
		return fmt.Sprintf("%s (%s)", p.Name, host.Wire{Protocol: p.Number})
	}
	if p.Port == 0 {
		return fmt.Sprintf("%s (IP protocol %d)", p.Name, p.Number)
	}
	if p.Last > p.Port {
		return fmt.Sprintf("%s (%s to ports %d to %d)", p.Name, host.Wire{Protocol: p.Number}, p.Port, p.Last)
	}
	return fmt.Sprintf("%s (%s)", p.Name, host.Wire{Protocol: p.Number, Port: p.Port})
}

// leastEtherType is the least number that is one: IEEE 802.3, section 3.2.6.
const leastEtherType = 0x600

// is says whether packets on the wire are of the protocol.
func (p Protocol) is(w host.Wire) bool {
	return p.Number == w.Protocol && p.Port <= w.Port && w.Port <= max(p.Port, p.Last)
}

// A Reach describes how a host reaches another one on a span.
type Reach struct {
	// Link is the link of the host, "" if it has one for each other host and none of its own.
	Link string
	// IPv4 and IPv6 are the addresses of the other host on the span: the next hop of what goes to it, unless there is a
	// router.
	IPv4, IPv6 netip.Addr
	// Router4 and Router6 are the addresses of the router that gets what goes to the other host. The zero value means that
	// the other host is a neighbour.
	Router4, Router6 netip.Addr
	// MAC is that of the next hop's link, "" if it has none or nobody knows it beforehand.
	MAC string
	// Encap is what each route to the other host passes to the link, which is then an external tunnel device. The zero
	// value is nothing: the link knows the way itself.
	Encap host.Encap
	// Sent and Received are the names of counters of the host, by a step that is a [host.Counting], for packets to the
	// other host and from it. They are "" where only the link counts them, which one of layer 2 does in any case.
	Sent, Received string
}

// Pick returns the address that is of the family of another one.
func (r Reach) Pick(like netip.Addr) netip.Addr {
	if like.Is4() {
		return r.IPv4
	}
	return r.IPv6
}

// Next returns the address, of the family of another one, that packets to the other host are given to.
func (r Reach) Next(like netip.Addr) netip.Addr {
	router := r.Router4
	if like.Is6() {
		router = r.Router6
	}
	if !router.IsValid() {
		return r.Pick(like)
	}
	return router
}

// Above returns a span on the uppermost one of the lab, whose MTU is what the overhead leaves of that below. Each host
// has one link of that name, the addresses of [SpanAddr] and, on layer 2, a MAC address from the seed. The carrier adds
// the steps, and changes what it has otherwise.
func (l Lab) Above(name string, layer int, outer, link string, o Overhead) Span {
	spans := l.spans()
	s := Span{
		Name: name, Layer: layer, MTU: o.Largest(l.Top().MTU), Overhead: o, Outer: outer,
		Reach: make([][]Reach, len(l.Hosts)), Steps: make([][]host.Step, len(l.Hosts)),
	}
	for i := range l.Hosts {
		for _, h := range l.Hosts {
			v4, v6 := SpanAddr(len(spans), h.Index)
			r := Reach{Link: link, IPv4: v4.Addr(), IPv6: v6.Addr()}
			if layer == 2 {
				r.MAC = MAC(l.Seed, h.Name(), link)
			}
			s.Reach[i] = append(s.Reach[i], r)
		}
	}
	return s
}

// underlay is the lowest span of a lab.
func (l Lab) underlay() Span {
	s := Span{Name: "underlay", Layer: 2, MTU: l.outer(), Reach: make([][]Reach, len(l.Hosts))}
	at := make([]Reach, len(l.Hosts))
	for i, h := range l.Hosts {
		v4, v6 := l.Underlaid(h)
		at[i] = Reach{IPv4: v4.Addr(), IPv6: v6.Addr(), MAC: MAC(l.Seed, h.Name(), h.Uplink)}
	}
	for i, h := range l.Hosts {
		s.Reach[i] = slices.Clone(at)
		for j := range at {
			s.Reach[i][j].Link = h.Uplink
			if i != j && l.Routed() {
				l.route(h, &s.Reach[i][j])
			}
		}
	}
	if l.Routed() {
		s.Layer = 3
	}
	return s
}

// outer is the MTU of the underlay.
func (l Lab) outer() int {
	switch {
	case len(l.Spans) > 0:
		return l.Spans[0].MTU
	case l.Underlay.MTU > 0:
		return l.Underlay.MTU
	}
	return l.MTU
}

// spans are what joins the hosts of the lab, the underlay first: that alone in a lab that was not composed.
func (l Lab) spans() []Span {
	if len(l.Spans) > 0 {
		return l.Spans
	}
	return []Span{l.underlay()}
}

// Top is the uppermost span, which packets between hosts are given to. There is one in labs of several hosts.
func (l Lab) Top() Span {
	all := l.spans()
	return all[len(all)-1]
}

// Address returns the addresses of a host on the uppermost span.
func (l Lab) Address(h Host) (v4, v6 netip.Addr) {
	own := l.Top().Reach[h.Index-1][h.Index-1]
	return own.IPv4, own.IPv6
}

// Own returns those addresses as ranges, for a [Server] whose containers are reached at them.
func (l Lab) Own(h Host) []netip.Prefix {
	v4, v6 := l.Address(h)
	return []netip.Prefix{netip.PrefixFrom(v4, v4.BitLen()), netip.PrefixFrom(v6, v6.BitLen())}
}

// Compose returns the lab with the spans that a stack has between hosts: the underlay, and on it the stack's carriers,
// each on the one that stands behind it in the order of the kinds. So bridge+vxlan+wireguard has VXLAN on WireGuard.
// What the network itself makes ([Crosser]) is on top. The MTU of the lab becomes what is left of the underlay's, if it
// was more. It is an error if that is too little.
func Compose(lab Lab, s stack.Stack) (Lab, error) {
	lab.Spans = nil
	if len(lab.Hosts) < 2 {
		return lab, nil
	}
	lab.Spans = []Span{lab.underlay()}
	for _, c := range slices.Backward(s) {
		carrier, ok := c.Part.Value.(Carrier)
		if !ok {
			continue
		}
		span, err := carrier.Carry(lab, c.Params)
		if err != nil {
			return lab, fmt.Errorf("%s %s: %w", c.Kind.Describe().Name, c.Part.Name, err)
		}
		if lab, err = lab.stand(span, c.Kind.Describe().Name+" "+c.Part.Name); err != nil {
			return lab, err
		}
	}
	if n, params, ok := stack.PartOf[Network](s); ok {
		given := lab.Params
		lab.Params = params
		var err error
		if lab, err = Cross(n, lab); err != nil {
			return lab, err
		}
		lab.Params = given
	}
	if top := lab.Top(); top.Addressed {
		return lab, &UnfitError{top.Name + " in transport mode protects what hosts send each other, but packets of " +
			"containers have other addresses (hint: add a tunnel, or leave the mode)"}
	}
	return lab.fit()
}

// stand adds a span, which what makes, on the uppermost one.
func (l Lab) stand(s Span, what string) (Lab, error) {
	if below := l.Top(); below.Addressed && s.Outer != below.Outer {
		return l, &UnfitError{fmt.Sprintf("%s sends packets of %s, but %s protects those of %s (hint: give both the "+
			"same outer)", what, familyName(s.Outer), below.Name, familyName(below.Outer))}
	}
	l.Spans = append(l.spans(), s)
	return l, nil
}

// fit gives a composed lab the MTU that its spans leave, if that is less than it has. It is an error if that is too
// little.
func (l Lab) fit() (Lab, error) {
	if l.MTU = min(l.MTU, l.Top().MTU); l.MTU < MinMTU {
		return l, &TooSmallError{Left: l.MTU, Sum: l.sum(), Least: l.least()}
	}
	return l, nil
}

// A TooSmallError says that the layers between hosts leave containers too little of the MTU of the underlay.
type TooSmallError struct {
	// Left is the MTU of the containers in bytes, and Sum how it came to be.
	Left int
	Sum  string
	// Least is the smallest MTU of the underlay that leaves enough.
	Least int
}

// Error says so.
func (e *TooSmallError) Error() string {
	return fmt.Sprintf("the layers between hosts leave containers an MTU of %d bytes: %s = %d; IPv6 needs %d (hint: set "+
		"underlay.mtu to %d or more)", e.Left, e.Sum, e.Left, MinMTU, e.Least)
}

// sum says what each span takes of the MTU: "1300 (underlay) − 60 (wireguard) − 50 (vxlan)".
func (l Lab) sum() string {
	all := l.spans()
	terms := []string{fmt.Sprintf("%d (%s)", all[0].MTU, all[0].Name)}
	for i, s := range all[1:] {
		terms = append(terms, fmt.Sprintf("%d (%s)", all[i].MTU-s.MTU, s.Name))
	}
	return strings.Join(terms, " − ")
}

// familyName is how a family is written.
func familyName(family string) string {
	if family == "ipv6" {
		return "IPv6"
	}
	return "IPv4"
}

// least is the smallest MTU of the underlay that leaves enough on the uppermost span.
func (l Lab) least() int {
	for outer := MinMTU; ; outer++ {
		left := outer
		for _, s := range l.spans()[1:] {
			left = s.Overhead.Largest(left)
		}
		if left >= MinMTU {
			return outer
		}
	}
}

// Layers says what each span leaves of the MTU: "underlay 1500, vxlan −50".
func (l Lab) Layers() string {
	var text []string
	all := l.spans()
	for i, s := range all {
		if i == 0 {
			text = append(text, fmt.Sprintf("%s %d", s.Name, s.MTU))
		} else {
			text = append(text, fmt.Sprintf("%s −%d", s.Name, all[i-1].MTU-s.MTU))
		}
	}
	return strings.Join(text, ", ")
}
