package proof

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// sketched is a lab of one host with that number of pairs.
func sketched(pairs int) Lab {
	l := Lab{Hosts: []Host{{Name: "host1"}}, Families: []string{"ipv4", "ipv6"}, Filtered: true}
	for i := range pairs {
		for n, name := range []string{fmt.Sprintf("src%d", i), fmt.Sprintf("snk%d", i)} {
			v4 := netip.AddrFrom4([4]byte{10, 0, byte(i), byte(1 + n)})
			first := uint16(20_000 + 100*i + 50*n)
			l.Hosts[0].Containers = append(l.Hosts[0].Containers, Container{
				Name: name, Namespace: name, IPv4: v4, PublicIPv4: v4, First: first, Last: first + 49,
			})
		}
		l.Pairs = append(l.Pairs, Pair{Source: fmt.Sprintf("src%d", i), Sink: fmt.Sprintf("snk%d", i)})
	}
	return l
}

// A matrix has each way once. Pairs come first, then each pair and another one, which is not the same in each turn:
// over all turns it is each of the others.
func TestMatrixWays(t *testing.T) {
	const pairs = 4
	others := map[int]bool{}
	for turn := range pairs - 1 {
		m := newMatrix(sketched(pairs), turn, false)
		ways, must := m.ways(1)
		if must != 2*pairs {
			t.Errorf("%d ways are tried however long it takes, want those of %d pairs", must, pairs)
		}
		once := map[way]bool{}
		for _, w := range ways {
			if w.from == w.to || once[w] {
				t.Errorf("way %v is there twice, or leads nowhere", w)
			}
			once[w] = true
		}
		if want := 2 * pairs * (2*pairs - 1 + 1 + len(groups())); len(ways) != want {
			t.Errorf("%d ways, want %d", len(ways), want)
		}
		for _, w := range ways[must : must+8] {
			if from, to := m.containers[w.from], m.containers[w.to]; from.pair == 0 {
				others[to.pair] = true
			}
		}
	}
	delete(others, 0)
	if len(others) != pairs-1 {
		t.Errorf("pair 0 was tried first with pairs %v, want all %d others in as many turns", others, pairs-1)
	}
}

// What arrives is judged by what is claimed of each packet.
func TestMatrixJudges(t *testing.T) {
	find := func(m *matrix, from, to string, k kind, port uint16) probe {
		t.Helper()
		at := func(name string) int { return slices.Index(m.names(), name) }
		list, _ := m.probes(way{at(from), at(to)}, false)
		i := slices.IndexFunc(list, func(p probe) bool { return p.kind == k && (k == echo || p.target.Port() == port) })
		if i < 0 {
			t.Fatalf("no probe of %s from %s to %s at %d", k.name(), from, to, port)
		}
		return list[i]
	}
	const sink0, source0, sink1 = 20_050, 20_000, 20_150
	type result struct {
		Arrives, Not, Elsewhere measure.Reach
	}
	for _, c := range []struct {
		name     string
		change   func(l *Lab)
		from, to string
		kind     kind
		port     uint16
		want     result
	}{
		{"listed, UDP", nil, "src0", "snk0", datagram, sink0, result{'a', 'm', 'L'}},
		{"listed, SYN", nil, "src0", "snk0", opening, sink0, result{'a', 'm', 'L'}},
		{"listed, ACK", nil, "src0", "snk0", bare, sink0, result{'a', 'r', 'L'}},
		{"ICMP of a pair", nil, "src0", "snk0", echo, 0, result{'a', 'r', 'L'}},
		{"ICMP backwards", nil, "snk0", "src0", echo, 0, result{'L', 'r', 'L'}},
		{"port 0", nil, "src0", "snk0", datagram, 0, result{'L', 'r', 'L'}},
		{"the highest port", nil, "src0", "snk0", bare, 65535, result{'L', 'r', 'L'}},
		{"the last port", nil, "src0", "snk0", opening, sink0 + 49, result{'L', 'r', 'L'}},
		{"another pair's port", nil, "src0", "snk0", datagram, sink1, result{'L', 'r', 'L'}},
		{"another pair", nil, "src0", "snk1", datagram, sink1, result{'L', 'r', 'L'}},
		{"like an answer", nil, "snk0", "src0", datagram, source0, result{'a', 'r', 'L'}},
		{"opened backwards", nil, "snk0", "src0", opening, source0, result{'L', 'r', 'L'}},
		{
			"no answer is due", func(l *Lab) { l.Stateful = true }, "snk0", "src0", datagram, source0 + idle,
			result{'L', 'r', 'L'},
		},
		{
			"a family that is not listed", func(l *Lab) { l.Families = []string{"ipv6"} }, "src0", "snk0", datagram, sink0,
			result{'L', 'r', 'L'},
		},
		{"no filter", func(l *Lab) { l.Filtered = false }, "src0", "snk1", datagram, sink1, result{'o', 'c', 'o'}},
		{"no filter, a pair", func(l *Lab) { l.Filtered = false }, "src0", "snk0", datagram, sink0, result{'a', 'm', 'm'}},
		{"a host", nil, "src0", "host1", opening, strange, result{'L', 'r', 'L'}},
		{
			"a router", func(l *Lab) { l.Routers = []Router{{Name: "router"}} }, "src0", "router", opening, strange,
			result{'L', 'r', 'L'},
		},
		{"a host, filtered inside", func(l *Lab) { l.Inside = true }, "src0", "host1", opening, strange, result{'o', 'c', 'L'}},
		{"a group", nil, "src0", "multicast", datagram, sink0, result{'r', 'r', 'L'}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := sketched(2)
			if c.change != nil {
				c.change(&l)
			}
			m := newMatrix(l, 0, true)
			for _, h := range m.hosts {
				h.addresses = []netip.Addr{netip.MustParseAddr("10.0.0.254")}
			}
			p := find(m, c.from, c.to, c.kind, c.port)
			judged := func(at ...int) measure.Reach {
				reach, _ := m.judge(p, at)
				return reach
			}
			third := slices.Index(m.names(), "src1")
			got := result{Not: judged(), Elsewhere: judged(third), Arrives: judged(p.to)}
			if p.to >= len(m.containers)+len(m.hosts) {
				got.Arrives = judged() // a group is nobody
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A port at which a sink is published may be published at the addresses of all hosts. The source of its pair may use
// any of them, and nobody else.
func TestMatrixPublished(t *testing.T) {
	l := sketched(2)
	for i := range l.Hosts[0].Containers {
		if c := &l.Hosts[0].Containers[i]; c.Name[:3] == "snk" {
			c.PublicIPv4 = netip.AddrFrom4([4]byte{198, 18, 0, byte(11 + i)})
		}
	}
	m := newMatrix(l, 0, false)
	at := func(name string) int { return slices.Index(m.names(), name) }
	for _, c := range []struct {
		from string
		port uint16
		want measure.Reach
	}{
		{"src0", 20_050, measure.ReachRefused}, // its own sink, at the address of the other one
		{"src0", 20_099, measure.ReachLeak},    // not on the list
		{"src1", 20_050, measure.ReachLeak},
	} {
		p := probe{
			kind: datagram, from: at(c.from), to: at("snk1"), expect: barred,
			target: netip.AddrPortFrom(m.containers[at("snk1")].PublicIPv4, c.port),
		}
		if got, leaks := m.judge(p, []int{at("snk0")}); got != c.want {
			t.Errorf("what %s sends to port %d arrives at snk0: %q (%v), want %q", c.from, c.port, got, leaks, c.want)
		}
	}
}

// The number of tries that are left out is that of those there are.
func TestMatrixSizes(t *testing.T) {
	l := sketched(3)
	l.Hosts = append(l.Hosts, Host{Name: "host2"})
	m := newMatrix(l, 1, false)
	for i, h := range m.hosts {
		for n := range 10 * (1 - i) { // more than are tried where time is short, and none
			h.addresses = append(h.addresses, netip.AddrFrom4([4]byte{10, 9, byte(i), byte(n)}))
		}
	}
	ways, _ := m.ways(1)
	for _, w := range ways {
		for _, v6 := range []bool{false, true} {
			if _, all := m.probes(w, v6); m.size(w, v6) != all {
				t.Errorf("way %v, IPv6 %t: %d tries, want %d", w, v6, m.size(w, v6), all)
			}
		}
	}
}
