package networktest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
)

// Paths returns the ways of all trips between sources and sinks, there and back, in both families, as the network plans
// them.
func (b *Bed) Paths(n network.Network) (*network.Paths, error) {
	tracer, ok := n.(network.Tracer)
	if !ok {
		return nil, errors.New("it does not say which way its packets take (network.Tracer)")
	}
	var p network.Paths
	for i := range b.pairs() {
		source, sink := b.stop("src", i), b.stop("snk", i)
		for _, family := range b.families() {
			for _, t := range []network.Trip{
				{Lab: b.Lab, Family: family, From: source, To: sink}, {Lab: b.Lab, Family: family, From: sink, To: source},
			} {
				p.Add(fmt.Sprintf("%s to %s, %s", t.From.Container.Name, t.To.Container.Name, family), tracer.Trace(t))
			}
		}
	}
	return &p, nil
}

func families() []string { return []string{"ipv4", "ipv6"} }

// ipHeader is the length in bytes of the header of a family: RFC 791 section 3.1, RFC 8200 section 3.
func ipHeader(family string) int { return map[string]int{"ipv4": 20, "ipv6": 40}[family] }

// families are those of which all containers have addresses.
func (b *Bed) families() []string {
	return slices.DeleteFunc(families(), func(family string) bool {
		return slices.ContainsFunc(slices.Concat(b.Ends...), func(e network.Endpoint) bool {
			return !e.Bind(family).IsValid()
		})
	})
}

// pairs is how many there are.
func (b *Bed) pairs() int {
	n := 0
	for _, h := range b.Lab.Hosts {
		n += len(h.Containers)
	}
	return n / 2
}

// stop finds a container by its name.
func (b *Bed) stop(kind string, i int) network.Stop {
	for h, on := range b.Lab.Hosts {
		for j, c := range on.Containers {
			if c.Name == fmt.Sprintf("%s%d", kind, i) {
				return network.Stop{Host: on, Container: c, Endpoint: b.Ends[h][j]}
			}
		}
	}
	panic(fmt.Sprintf("networktest: no %s %d", kind, i))
}

// Trace asks the underlay and the hosts.
func (b *Bed) Trace(t testing.TB, questions []host.Question) ([]host.Trace, error) {
	traces := make([]host.Trace, len(questions))
	for i, q := range questions {
		m := b.Underlay
		if i > 0 {
			m = b.Hosts[i-1]
		}
		if m == nil {
			continue
		}
		var err error
		if traces[i], err = m.Stack.Trace(t.Context(), m.Kernel, q); err != nil {
			return nil, err
		}
	}
	return traces, nil
}

// Carry has every pair exchange a number of datagrams in both families and returns what is wrong with the way they
// took: where they were given on to (next), and what was counted (counted). The third error says that the rest could
// not be found out, as when no datagram passes.
func (b *Bed) Carry(t testing.TB, n network.Network) (next, counted, err error) {
	p, err := b.Paths(n)
	if err != nil {
		return nil, nil, err
	}
	// so that neighbours are known, and nobody asks for them while packets are counted
	if err := b.exchange(); err != nil {
		return nil, nil, err
	}
	before, err := b.Trace(t, p.Questions(false))
	if err != nil {
		return nil, nil, err
	}
	if err := b.exchange(); err != nil {
		return nil, nil, err
	}
	after, err := b.Trace(t, p.Questions(true))
	if err != nil {
		return nil, nil, err
	}
	carried := make([]int64, p.Len())
	for i := range carried {
		carried[i] = Exchanged
	}
	missing, excess := p.Counted(before, after, carried, carried)
	return p.Next(after), errors.Join(missing, excess, p.Beyond(before, after, 0)), nil
}

// exchange sends a number of datagrams from every source to its sink and back, in each family.
func (b *Bed) exchange() error {
	for _, family := range b.families() {
		if err := b.Exchange(family, small); err != nil {
			return err
		}
	}
	return nil
}

// Exchange sends a number of datagrams, each with that number of bytes of payload and unfragmented, from every source
// to its sink, and has each answered. Byte i of the first payload is i mod 251.
func (b *Bed) Exchange(family string, size int) error {
	for i := range b.pairs() {
		if err := datagrams(b.ends("src", i), b.ends("snk", i), family, portForth, whole, size); err != nil {
			return fmt.Errorf("src%d to snk%d, %s: %w", i, i, family, err)
		}
	}
	return nil
}

// path wants packets to take the way that the network says, and every way around it to be seen.
func path(t testing.TB, n network.Network, around []detour, labs ...network.Lab) error {
	for _, lab := range labs {
		for _, d := range append([]detour{{name: "none"}}, around...) {
			if err := pathOf(t, n, lab, d); err != nil {
				return fmt.Errorf("%d hosts, detour: %s: %w", len(lab.Hosts), d.name, err)
			}
		}
	}
	return nil
}

func pathOf(t testing.TB, n network.Network, lab network.Lab, d detour) (err error) {
	b, err := MakeBed(t, n, lab)
	if err != nil {
		return err
	}
	if d.plant != nil && !d.possible(b, n) {
		return nil
	}
	defer func() { err = errors.Join(err, b.Undo()) }()
	if err := b.Apply(t); err != nil {
		return err
	}
	if err := b.Verify(t); err != nil {
		return fmt.Errorf("after all plans were applied: %w", err)
	}
	if d.plant == nil {
		next, counted, err := b.Carry(t, n)
		if err := errors.Join(err, next, counted); err != nil {
			return err
		}
		return b.blind(t, n)
	}
	if err := d.plant(t, b); err != nil {
		return err
	}
	next, counted, err := b.Carry(t, n)
	switch {
	case err != nil:
		return err
	case next == nil:
		return errors.New("the hosts say that packets go on as planned")
	case counted == nil && d.counted:
		return errors.New("the counters have counted what they should")
	}
	return nil
}

// blind wants what was found of the way to depend on it: packets that nobody has sent were counted nowhere, and a
// neighbour at another MAC address is seen.
func (b *Bed) blind(t testing.TB, n network.Network) error {
	p, err := b.Paths(n)
	if err != nil {
		return err
	}
	traces, err := b.Trace(t, p.Questions(true))
	if err != nil {
		return err
	}
	carried := make([]int64, p.Len())
	carried[0] = 1
	if missing, _ := p.Counted(traces, traces, carried, nil); missing == nil {
		return errors.New("no counter counts the first trip")
	}
	questions := p.Questions(true)
	for on, q := range questions {
		for i, hop := range q.Hops {
			next := traces[on].Next[i]
			if next.MAC == "" {
				continue
			}
			m := b.Underlay
			if on > 0 {
				m = b.Hosts[on-1]
			}
			k := m.Kernel
			elsewhere := host.Neighbour{
				NS: hop.NS, Dev: next.Link, Addresses: []string{next.Via.String()}, At: "02:00:00:00:00:fe",
			}
			if err := elsewhere.Apply(t.Context(), k); err != nil {
				return err
			}
			moved, err := b.Trace(t, questions)
			if err := errors.Join(err, elsewhere.Remove(t.Context(), k)); err != nil {
				return err
			}
			if p.Next(moved) == nil {
				return fmt.Errorf("nobody sees that %s%s is at another MAC address", next, hop.NS)
			}
			break // one of each host
		}
	}
	return nil
}

// A detour is a way around a network.
type detour struct {
	name string
	// possible says whether it can be made in a lab, which need not stand.
	possible func(*Bed, network.Network) bool
	// plant makes it in a lab that stands.
	plant func(testing.TB, *Bed) error
	// counted says that counters of the network miss packets then, besides that they go to another neighbour.
	counted bool
}

func detours() []detour {
	return []detour{
		{"a wire between two containers", canWireContainers, wireContainers, true},
		{"a wire between two hosts", canWireHosts, wireHosts, false},
	}
}

// Links and addresses of a wire: RFC 5737, section 3, and RFC 3849.
const (
	wireNear, wireFar   = "around0", "around1"
	wireNear4, wireFar4 = "192.0.2.1", "192.0.2.2"
	wireNear6, wireFar6 = "2001:db8::1", "2001:db8::2"
)

// canWireContainers wants the first source and its sink to be on one host, in namespaces of their own.
func canWireContainers(b *Bed, n network.Network) bool {
	source, sink := b.stop("src", 0), b.stop("snk", 0)
	return source.Host.Index == sink.Host.Index && source.Endpoint.Namespace != sink.Endpoint.Namespace &&
		!translated(n, b.Lab)
}

// wireContainers joins the first source and its sink by a link of their own.
func wireContainers(t testing.TB, b *Bed) error {
	source, sink := b.stop("src", 0), b.stop("snk", 0)
	from, to := source.Endpoint.Namespace, sink.Endpoint.Namespace
	return b.wire(t, b.Hosts[0], from, to, b.Hosts[0], b.Hosts[0], from, to, source, sink)
}

// canWireHosts wants the first pair to be on two hosts that route. The host of the sink needs a link to it: without one
// it can deliver nothing that comes by the wire.
func canWireHosts(b *Bed, n network.Network) bool {
	source, sink := b.stop("src", 0), b.stop("snk", 0)
	return source.Host.Index != sink.Host.Index && !translated(n, b.Lab) && routes(n, b.Lab, source, sink) &&
		sink.Endpoint.Link != ""
}

// wireHosts joins the hosts of the first pair by a link of their own.
func wireHosts(t testing.TB, b *Bed) error {
	source, sink := b.stop("src", 0), b.stop("snk", 0)
	return b.wire(t, b.Underlay, "@"+source.Host.Name(), "@"+sink.Host.Name(), b.Hosts[source.Host.Index-1],
		b.Hosts[sink.Host.Index-1], "", "", source, sink)
}

// routes says whether the network has the host of the source send its packets to a neighbour.
func routes(n network.Network, lab network.Lab, source, sink network.Stop) bool {
	tracer, ok := n.(network.Tracer)
	if !ok {
		return false
	}
	for _, h := range tracer.Trace(network.Trip{Lab: lab, Family: "ipv4", From: source, To: sink}).Hops {
		if h.NS == "" && h.Next.Link == source.Host.Uplink && source.Endpoint.Namespace != "" {
			return true
		}
	}
	return false
}

// wire makes the link from where it can be made, and routes at both of its ends.
func (b *Bed) wire(t testing.TB, maker *Machine, from, to string, near, far *Machine, nearNS, farNS string, source,
	sink network.Stop,
) error {
	apply := func(m *Machine, steps ...host.Step) error {
		return m.Stack.Apply(t.Context(), m.Kernel, host.Plan{Steps: steps})
	}
	veth := host.Veth{
		NS: from, Name: wireNear, Addresses: []string{wireNear4 + "/30", wireNear6 + "/126"},
		PeerNS: to, PeerName: wireFar, PeerAddresses: []string{wireFar4 + "/30", wireFar6 + "/126"},
	}
	const noDAD = "net.ipv6.conf.default.accept_dad"
	if err := apply(maker, host.Sysctl{NS: from, Key: noDAD, Value: "0"}, host.Sysctl{NS: to, Key: noDAD, Value: "0"},
		veth); err != nil {
		return err
	}
	if err := veth.Verify(maker.Kernel); err != nil { // it waits until packets can pass
		return err
	}
	way := func(ns, dev, via4, via6 string, e network.Endpoint) []host.Step {
		steps := []host.Step{host.Route{NS: ns, To: netip.PrefixFrom(e.IPv4, 32).String(), Via: via4, Dev: dev}}
		if e.IPv6.IsValid() {
			steps = append(steps, host.Route{NS: ns, To: netip.PrefixFrom(e.IPv6, 128).String(), Via: via6, Dev: dev})
		}
		return steps
	}
	return errors.Join(
		apply(near, way(nearNS, wireNear, wireFar4, wireFar6, sink.Endpoint)...),
		apply(far, way(farNS, wireFar, wireNear4, wireNear6, source.Endpoint)...),
	)
}
