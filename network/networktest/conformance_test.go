package networktest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	hostnet "github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/part"
)

// The test binary delays the packets of its own labs.
func TestMain(m *testing.M) { steptest.Main(m, host.Daemons()) }

// spoilt is a network that works, but for what change does to its plans and endpoints.
func spoilt(n network.Network, change func(network.Lab, []host.Plan, [][]network.Endpoint)) Fake {
	return Fake{Serving: n, BuildFunc: func(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
		plans, ends, err := n.Build(lab)
		if err == nil {
			change(lab, plans, ends)
		}
		return plans, ends, err
	}}
}

// each calls f with each step of the plans, to be replaced by what it returns; nil drops it.
func each(plans []host.Plan, f func(host.Step) host.Step) {
	for i, p := range plans {
		var steps []host.Step
		for _, s := range p.Steps {
			if s = f(s); s != nil {
				steps = append(steps, s)
			}
		}
		plans[i].Steps = steps
	}
}

// blind is a step that verifies everything.
type blind struct{ host.Veth }

func (blind) Verify(*host.Kernel) error { return nil }

// sticky is a step that undoes nothing.
type sticky struct{ host.Link }

func (sticky) Remove(context.Context, *host.Kernel) error { return nil }

// once is a step that can be undone only while it stands.
type once struct{ host.Bridge }

func (o once) Remove(ctx context.Context, k *host.Kernel) error {
	h, err := k.Links(o.NS)
	if err != nil {
		return err
	}
	if _, err := h.ByName(o.Name); errors.Is(err, link.ErrNotFound) {
		return err
	}
	return o.Bridge.Remove(ctx, k)
}

// remembering is a step that can be undone only by the process that has applied it.
type remembering struct {
	host.Bridge
	applied *bool
}

func (r remembering) Apply(ctx context.Context, k *host.Kernel) error {
	*r.applied = true
	return r.Bridge.Apply(ctx, k)
}

func (r remembering) Remove(ctx context.Context, k *host.Kernel) error {
	if r.applied == nil || !*r.applied {
		return nil
	}
	return r.Bridge.Remove(ctx, k)
}

// blindNAT is a step that verifies everything, as blind.
type blindNAT struct{ nat.Translation }

func (blindNAT) Verify(*host.Kernel) error { return nil }

// stickyNAT is a step that undoes nothing, as sticky.
type stickyNAT struct{ nat.Translation }

func (stickyNAT) Remove(context.Context, *host.Kernel) error { return nil }

// excluding is a network that leaves out labs.
type excluding struct {
	Fake
	reason func(hosts int) string
}

func (e excluding) Exclude(hosts int, _ part.Params) string { return e.reason(hosts) }

// translating is a network that says that it translates.
type translating struct{ Fake }

func (translating) Translates(hosts int, _ part.Params) bool { return hosts > 1 }

// serving is a network each of whose hosts serves the containers of all.
type serving struct{ Fake }

func (serving) Serves(network.Lab, network.Host) []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}
}

// tracing is a bridge that says another way than its own.
type tracing struct {
	bridge.Network
	change func(*network.Way, network.Trip)
}

func (n tracing) Trace(t network.Trip) network.Way {
	w := n.Network.Trace(t)
	n.change(&w, t)
	return w
}

// opaque is a step of a kind that no decoder knows.
type opaque struct{ host.Link }

func (opaque) Kind() string { return "opaque" }

// TestSuiteFails runs the suite on networks that are wrong in one way each and wants the check for it to say so.
func TestSuiteFails(t *testing.T) {
	type change = func(network.Lab, []host.Plan, [][]network.Endpoint)
	steps := func(f func(host.Step) host.Step) change {
		return func(_ network.Lab, plans []host.Plan, _ [][]network.Endpoint) { each(plans, f) }
	}
	var calls atomic.Int64
	reason := func(f func(hosts int) string) network.Network { return excluding{reason: f} }
	// translation is a network that translates across hosts, but for what change does to that.
	translation := func(change func(nat.Translation) host.Step) network.Network {
		return translating{spoilt(nat.Network{}, steps(func(s host.Step) host.Step {
			if n, ok := s.(nat.Translation); ok {
				return change(n)
			}
			return s
		}))}
	}
	// inside sets variables in every container.
	inside := func(value string, keys ...string) network.Network {
		return spoilt(bridge.Network{}, func(lab network.Lab, plans []host.Plan, _ [][]network.Endpoint) {
			for i, h := range lab.Hosts {
				for _, c := range h.Containers {
					for _, key := range keys {
						plans[i].Steps = append(plans[i].Steps, host.Sysctl{NS: c.Name, Key: key, Value: value})
					}
				}
			}
		})
	}
	for _, c := range []struct {
		name    string
		network network.Network
		check   string
		want    string
	}{
		{
			"no name",
			Fake{Description: network.Description{Summary: "joins nothing", Implementation: "kernel"}},
			"description",
			`the name is ""`,
		},
		{
			"no implementation",
			Fake{Description: network.Description{Name: "x", Summary: "joins nothing"}},
			"description",
			`the implementation is ""`,
		},
		{
			"leaves out without a sentence", reason(func(int) string { return "no" }), "exclusions",
			`labs of 1 hosts are left out because "no", want a sentence`,
		},
		{
			"leaves out with a full stop", reason(func(int) string { return "there is none." }), "exclusions",
			"without its full stop",
		},
		{
			"leaves out for any reason", reason(func(int) string { return fmt.Sprintf("reason %d", calls.Add(1)) }),
			"exclusions", "and then because",
		},
		{
			"leaves out everything", reason(func(int) string { return "there is none" }), "exclusions",
			"labs of every number of hosts are left out",
		},
		{"error", Fake{BuildFunc: func(network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
			return nil, nil, errors.New("cannot")
		}}, "pure", "build a lab of 1 hosts: cannot"},
		{"another plan each time", spoilt(bridge.Network{}, steps(func(s host.Step) host.Step {
			if b, ok := s.(host.Bridge); ok {
				b.Name = fmt.Sprintf("br%d", calls.Add(1))
				return b
			}
			return s
		})), "pure", "built twice"},
		{"changes its lab", spoilt(hostnet.Network{}, func(lab network.Lab, _ []host.Plan, _ [][]network.Endpoint) {
			lab.Hosts[0].Uplink = "changed"
		}), "pure", "changed its lab"},
		{"plan too many", Fake{BuildFunc: func(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
			plans, ends, err := hostnet.Network{}.Build(lab)
			return append(plans, host.Plan{}), ends, err
		}}, "shape", "2 plans and 1 lists of endpoints for 1 hosts"},
		{"no endpoints", spoilt(bridge.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
			ends[0] = nil
		}), "shape", "0 endpoints for 2 containers"},
		{"no IPv6", spoilt(hostnet.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
			for i := range ends[0] {
				ends[0][i].IPv6 = ends[0][i].IPv4
			}
		}), "shape", "want one of IPv4 and one of IPv6"},
		{"an address twice", spoilt(bridge.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
			if len(ends[0]) > 1 {
				ends[0][1].IPv4 = ends[0][0].IPv4
			}
		}), "shape", "address 10.1.1.0 is that of"},
		{"public address of one family", spoilt(nat.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
			for i := range ends[0] {
				ends[0][i].PublicIPv6 = netip.Addr{}
			}
		}), "shape", `the public addresses of src0 are "198.18.0.1" and "invalid IP"`},
		{
			"public address of another host",
			spoilt(nat.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
				for i := range ends {
					for j := range ends[i] {
						ends[i][j].PublicIPv4 = netip.AddrFrom4([4]byte{198, 18, 0, 1})
						ends[i][j].PublicIPv6 = netip.IPv6Loopback()
					}
				}
			}), "shape", "the public address 198.18.0.1 is that of host 1 and of host 2",
		},
		{
			"public address of a container",
			spoilt(bridge.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
				for i := range ends[0] {
					ends[0][i].PublicIPv4, ends[0][i].PublicIPv6 = ends[0][0].IPv4, ends[0][0].IPv6
				}
			}), "shape", "is that of a container",
		},
		{"lets everything pass", Fake{BuildFunc: func(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
			return nil, nil, nil
		}}, "wrong labs", "is built, want an error"},
		{"unknown kind of step", spoilt(hostnet.Network{}, steps(func(s host.Step) host.Step {
			if l, ok := s.(host.Link); ok {
				return opaque{l}
			}
			return s
		})), "round trip", `unknown kind "opaque"`},
		{"MAC without the seed", spoilt(bridge.Network{}, steps(func(s host.Step) host.Step {
			if b, ok := s.(host.Bridge); ok {
				b.MAC = "02:00:00:00:00:01"
				return b
			}
			return s
		})), "MAC addresses", "02:00:00:00:00:01 is used"},
		{"MAC of a vendor", spoilt(bridge.Network{}, steps(func(s host.Step) host.Step {
			if v, ok := s.(host.Veth); ok {
				v.MAC = "00" + v.MAC[2:]
				return v
			}
			return s
		})), "MAC addresses", "is not locally administered and unicast"},
		{"a step that fails", spoilt(hostnet.Network{}, steps(func(s host.Step) host.Step {
			if l, ok := s.(host.Link); ok {
				l.Name = "none"
				return l
			}
			return s
		})), "packets, 1 hosts, 1 pairs", `read link "none": not found`},
		{
			"serves nothing across hosts",
			Fake{BuildFunc: bridge.Network{}.Build},
			"packets, 2 hosts, 1 pairs",
			"src0 to snk0, 10.1.1.0 to 10.2.1.0: ",
		},
		{
			"does not say what it serves",
			Fake{BuildFunc: bridge.Network{}.Build},
			"shape",
			"host 1: src0 is reached at 10.1.1.0, and that is not on the underlay (198.18.0.0/16, fd00:198:18::/48)",
		},
		{
			"serves other addresses",
			Fake{BuildFunc: bridge.Network{}.Build, Serving: nat.Network{}},
			"shape",
			"host 1: src0 is reached at 10.1.1.0, and the host serves 198.18.0.1/32, fd00:198:18::1/128",
		},
		{
			"serves what another host serves", serving{spoilt(bridge.Network{}, func(network.Lab, []host.Plan,
				[][]network.Endpoint) {
			})}, "shape", "host 1: src0 is reached at 10.1.1.0, and host 2 serves 10.0.0.0/8 as well",
		},
		{"no forwarding of IPv6", spoilt(bridge.Network{}, steps(func(s host.Step) host.Step {
			if y, ok := s.(host.Sysctl); ok && y.Key == "net.ipv6.conf.all.forwarding" {
				return nil
			}
			return s
		})), "packets, 2 hosts, 1 pairs", "src0 to snk0, fd00:10:1::1:0 to fd00:10:2::1:0: "},
		{"MTU too small", spoilt(hostnet.Network{}, steps(func(s host.Step) host.Step {
			if l, ok := s.(host.Link); ok {
				l.MTU = 1400
				return l
			}
			return s
		})), "packets, 1 hosts, 1 pairs", "send a datagram of 1412 bytes"},
		{"MTU of the kernel", spoilt(hostnet.Network{}, steps(func(s host.Step) host.Step {
			if l, ok := s.(host.Link); ok {
				l.MTU = 0
				return l
			}
			return s
		})), "packets, 1 hosts, 1 pairs", "one more than fits: it is sent"},
		{"addresses of others", spoilt(bridge.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
			if len(ends[0]) > 1 {
				ends[0][0].IPv4, ends[0][1].IPv4 = ends[0][1].IPv4, ends[0][0].IPv4
			}
		}), "packets, 1 hosts, 1 pairs", "cannot assign requested address"},
		{"sources that are not translated", translation(func(n nat.Translation) host.Step {
			n.Sources = nil
			return n
		}), "packets, 2 hosts, 1 pairs", "it comes from 10.1.1.0:20000, want 198.18.0.1:20000"},
		{"IPv6 sources that are not translated", translation(func(n nat.Translation) host.Step {
			n.Sources = n.Sources[:1]
			return n
		}), "packets, 2 hosts, 1 pairs", "it comes from [fd00:10:1::1:0]:20000, want [fd00:198:18::1]:20000"},
		{"ports that lead nowhere", translation(func(n nat.Translation) host.Step {
			n.Published = nil
			return n
		}), "packets, 2 hosts, 1 pairs", "src0 to snk0, 10.1.1.0 to 198.18.0.2: "},
		{"ports that lead to the other container", translation(func(n nat.Translation) host.Step {
			if p := n.Published; len(p) > 1 {
				p[0].To, p[1].To = p[1].To, p[0].To
			}
			return n
		}), "packets, 2 hosts, 3 pairs", "receive datagram 0 of 28 bytes: "},
		{"translation that is not said", spoilt(nat.Network{}, func(_ network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
			for i := range ends {
				for j := range ends[i] {
					ends[i][j].PublicIPv4, ends[i][j].PublicIPv6 = netip.Addr{}, netip.Addr{}
				}
			}
		}), "packets, 2 hosts, 1 pairs", "src0 to snk0, 10.1.1.0 to 10.2.1.0: "},
		{
			"translation that is only said",
			spoilt(bridge.Network{}, func(lab network.Lab, _ []host.Plan, ends [][]network.Endpoint) {
				for i, h := range lab.Hosts {
					v4, v6 := network.UnderlayAddr(h.Index)
					for j := range ends[i] {
						ends[i][j].PublicIPv4, ends[i][j].PublicIPv6 = v4.Addr(), v6.Addr()
					}
				}
			}), "packets, 2 hosts, 1 pairs", "src0 to snk0, 10.1.1.0 to 198.18.0.2: ",
		},
		{"containers that do not reach each other", spoilt(macvlan.Network{}, steps(func(s host.Step) host.Step {
			if m, ok := s.(macvlan.Link); ok {
				m.Mode = "private"
				return m
			}
			return s
		})), "packets, 1 hosts, 1 pairs", "src0 to snk0, 198.18.1.0 to 198.18.1.1: "},
		{
			"no echoes", inside("1", "net.ipv4.icmp_echo_ignore_all"), "packets, 1 hosts, 1 pairs",
			"src0 to snk0, 10.1.1.0 to 10.1.1.1: ask for an echo of 28 bytes: ",
		},
		{
			"no echoes of IPv6", inside("1", "net.ipv6.icmp.echo_ignore_all"), "packets, 1 hosts, 1 pairs",
			"src0 to snk0, fd00:10:1::1:0 to fd00:10:1::1:1: ask for an echo of 28 bytes: ",
		},
		{
			"no fragments", inside("0", "net.ipv4.ipfrag_low_thresh", "net.ipv4.ipfrag_high_thresh"),
			"packets, 1 hosts, 1 pairs", "receive datagram 0 of 65507 bytes: ",
		},
		{
			"no fragments of IPv6", inside("0", "net.ipv6.ip6frag_low_thresh", "net.ipv6.ip6frag_high_thresh"),
			"packets, 1 hosts, 1 pairs", "fd00:10:1::1:0 to fd00:10:1::1:1: receive datagram 0 of 65507 bytes: ",
		},
		{"small segments", inside("2", "net.ipv4.tcp_mtu_probing"), "packets, 1 hosts, 1 pairs", "and 1388 fit"},
		{
			"verifies every translation", translation(func(n nat.Translation) host.Step { return blindNAT{n} }), "tampering",
			"Verify does not see that someone tampered",
		},
		{
			"leaves its translation", translation(func(n nat.Translation) host.Step { return stickyNAT{n} }), "undo, 2 hosts",
			"nettoll",
		},
		{"verifies everything", spoilt(bridge.Network{}, steps(func(s host.Step) host.Step {
			if v, ok := s.(host.Veth); ok {
				return blind{v}
			}
			return s
		})), "tampering", "Verify does not see that someone tampered (set down a veth)"},
		{
			"says no way",
			tracing{change: func(w *network.Way, _ network.Trip) { *w = network.Way{} }},
			"path, 1 hosts",
			"no counter counts the first trip",
		},
		{"says another bridge", tracing{change: func(w *network.Way, t network.Trip) {
			w.Received(t.From.Host, "", t.From.Endpoint.Link, "br1")
		}}, "path, 1 hosts", "host1 does not count packets received by vsrc0, port of br1"},
		{"says a link that carries nothing", tracing{change: func(w *network.Way, t network.Trip) {
			w.Sent(t.From.Host, "", "lo", "")
		}}, "path, 1 hosts", "packets sent by lo, but at least"},
		{"says that nothing is forwarded", tracing{change: func(w *network.Way, t network.Trip) {
			w.Counters = w.Counters[:1]
			w.NotForwarded(t)
		}}, "path, 2 hosts", "packets of ipv4 forwarded by the host's network stack, but the plan expects none"},
		{"says another neighbour", tracing{change: func(w *network.Way, _ network.Trip) {
			w.Hops[0].Next.MAC = "02:00:00:00:00:01"
		}}, "path, 2 hosts", "src0 to snk0, ipv4: on host1 in src0 packets to 10.2.1.0 go to 10.1.0.1 through eth0 at "},
		{"undoes nothing", spoilt(hostnet.Network{}, steps(func(s host.Step) host.Step {
			if l, ok := s.(host.Link); ok {
				return sticky{l}
			}
			return s
		})), "undo, 1 hosts", "undone, it is not as it was"},
		{"undoes once", spoilt(bridge.Network{}, steps(func(s host.Step) host.Step {
			if b, ok := s.(host.Bridge); ok {
				return once{b}
			}
			return s
		})), "undo, 1 hosts", `is gone, and again: undo step 1`},
		{"undoes from memory", spoilt(bridge.Network{}, steps(func(s host.Step) host.Step {
			if b, ok := s.(host.Bridge); ok {
				return remembering{b, new(bool)}
			}
			return s
		})), "undo from data, 1 hosts", "removed from what was kept, it is not as it was"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testnet.Turn(t)
			t.Parallel() // most of the time packets are waited for that do not come
			i := slices.IndexFunc(checks(map[string]bool{}), func(k check) bool { return k.name == c.check })
			if i < 0 {
				t.Fatalf("there is no check %q", c.check)
			}
			err := checks(map[string]bool{})[i].run(t, c.network)
			if errors.Is(err, errors.ErrUnsupported) {
				testnet.Skip(t, err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s = %v\nwant %q", c.check, err, c.want)
			}
		})
	}
}

// TestEchoes wants it to be seen that somebody else answers: here, echoes are counted elsewhere than at their sink.
func TestEchoes(t *testing.T) {
	b, err := MakeBed(t, bridge.Network{}, Lab(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	testnet.Skip(t, b.Apply(t))
	defer func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	}()
	source, sink := b.ends("src", 0), b.ends("snk", 0)
	if err := echoes(source, sink, "ipv4", small); err != nil {
		t.Error(err)
	}
	sink.Namespace = source.Namespace
	if err := echoes(source, sink, "ipv4", small); err == nil || !strings.Contains(err.Error(), "somebody else answered") {
		t.Errorf("echoes that somebody else has answered = %v, want an error", err)
	}
}

// TestFake holds that the fake is a network as far as can be without a kernel.
func TestFake(t *testing.T) {
	for _, c := range checks(map[string]bool{})[:7] {
		if err := c.run(t, Fake{}); err != nil && c.name != "shape" { // all its containers share one address
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
