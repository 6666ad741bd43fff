package network_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// layer is a carrier that adds that number of bytes. It is the only part of its kind.
type layer struct {
	name             string
	bytes            int
	padding, trailer int
}

func (l layer) Carry(lab network.Lab, _ part.Params) (network.Span, error) {
	return lab.Above(l.name, 3, "ipv4", l.name+"0", network.Overhead{
		Bytes: l.bytes, Padding: l.padding, Trailer: l.trailer, Source: "test",
	}), nil
}

func (l layer) Describe() stack.Description { return stack.Description{Name: l.name} }
func (layer) Parts() []stack.Part           { return nil }

func layered(layers ...layer) stack.Stack {
	var s stack.Stack
	for _, l := range layers {
		s = append(s, stack.Choice{Kind: l, Part: stack.Part{Description: part.Description{Name: l.name}, Value: l}})
	}
	return s
}

// A part stands on those behind it, and containers have what all of them leave.
func TestCompose(t *testing.T) {
	two := layered(layer{name: "outside", bytes: 50}, layer{name: "inside", bytes: 60})
	for _, c := range []struct {
		name       string
		stack      stack.Stack
		hosts, mtu int
		outer      int
		want       string
		left       int
	}{
		{"direct", nil, 2, 1500, 0, "underlay 1500", 1500},
		{"two layers", two, 2, 1500, 0, "underlay 1500, inside −60, outside −50", 1390},
		{"a larger underlay", two, 2, 1500, 1610, "underlay 1610, inside −60, outside −50", 1500},
		{"a smaller underlay", nil, 2, 1500, 1400, "underlay 1400", 1400},
		{"one host", nil, 1, 1500, 1400, "", 1500},
	} {
		lab := network.NewLab(c.hosts, c.mtu)
		lab.Underlay.MTU = c.outer
		lab, err := network.Compose(lab, c.stack)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if lab.MTU != c.left || c.want != "" && lab.Layers() != c.want {
			t.Errorf("%s: MTU %d by %s, want %d by %s", c.name, lab.MTU, lab.Layers(), c.left, c.want)
		}
	}
	lab := network.NewLab(2, network.MinMTU)
	const want = "an MTU of 1170 bytes: 1280 (underlay) − 60 (inside) − 50 (outside) = 1170; " +
		"IPv6 needs 1280 (hint: set underlay.mtu to 1390 or more)"
	if _, err := network.Compose(lab, two); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("too little is left: %v, want %q", err, want)
	}
	// blocks leave something unused: outside needs 1330 bytes, which are 1344 in blocks of 16 with the 5 besides
	lab.Underlay.MTU = 1400
	blocks := layered(layer{name: "outside", bytes: 50}, layer{name: "inside", bytes: 60, padding: 16, trailer: 5})
	hint := "hint: set underlay.mtu to 1404 or more"
	if _, err := network.Compose(lab, blocks); err == nil || !strings.Contains(err.Error(), hint) {
		t.Errorf("too little is left by blocks: %v, want %q", err, hint)
	}
	for mtu, enough := range map[int]bool{1403: false, 1404: true} {
		lab.Underlay.MTU = mtu
		if _, err := network.Compose(lab, blocks); (err == nil) != enough {
			t.Errorf("on an underlay of %d bytes: %v", mtu, err)
		}
	}
}

// The layers begin with the underlay, and each says how long a packet of containers is below it.
func TestBetween(t *testing.T) {
	lab := network.NewLab(2, 1500)
	lab.Underlay = network.Medium{Hops: 1, MTU: 1600}
	lab, err := network.Compose(lab, layered(layer{name: "outside", bytes: 30}, layer{name: "inside", bytes: 60, padding: 16}))
	if err != nil {
		t.Fatal(err)
	}
	want := []network.Layer{
		{Name: "underlay", MTU: 1600, Medium: "1 router"},
		{Name: "inside", MTU: 1540, Size: 1596, Added: 66, Source: "test", Outer: "ipv4"},
		{Name: "outside", MTU: 1510, Size: 1530, Added: 30, Source: "test", Outer: "ipv4"},
		{Name: "containers", MTU: 1500},
	}
	if diff := cmp.Diff(want, lab.Between()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if one := network.NewLab(1, 1500).Between(); one != nil {
		t.Errorf("a lab of one host has %v", one)
	}
}

// What contradicts itself is refused, with what is valid.
func TestRouters(t *testing.T) {
	for _, c := range []struct {
		medium  network.Medium
		routers int
		text    string
		wrong   string
	}{
		{network.Medium{}, 0, "", ""},
		{network.Medium{Hops: 1, Rate: 1e9}, 1, "1000 Mbit/s, 1 router", ""},
		{network.Medium{Hops: 2}, 2, "2 routers", ""},
		{network.Medium{Paths: 2}, 2, "2 routers, 2 paths", ""},
		{network.Medium{Paths: 1}, 0, "", ""},
		{network.Medium{Hops: 1, Paths: 2}, 2, "2 routers, 2 paths", "(valid: underlay.hops=2)"},
		{network.Medium{Hops: 3}, 3, "3 routers", "3 routers between hosts (valid: 0 to 2)"},
	} {
		err := c.medium.Valid()
		if c.medium.Routers() != c.routers || c.medium.String() != c.text ||
			(err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %d routers, %q, %v", c.medium, c.medium.Routers(), c.medium, err)
		}
	}
}

// Packets are given to the uppermost span, whose packets are given to the one below.
func TestCarried(t *testing.T) {
	lab, err := network.Compose(networktest.Lab(2, 1), layered(layer{name: "outside", bytes: 50}, layer{name: "inside", bytes: 60}))
	if err != nil {
		t.Fatal(err)
	}
	stop := func(h int, v4 string) network.Stop {
		return network.Stop{Host: lab.Hosts[h], Endpoint: network.Endpoint{IPv4: netip.MustParseAddr(v4)}}
	}
	var w network.Way
	w.Carried(network.Trip{Lab: lab, Family: "ipv4", From: stop(0, "10.1.1.0"), To: stop(1, "10.2.1.0")})
	hop := func(to, link, via, mac string) network.Hop {
		return network.Hop{
			Host: 1, Hop: host.Hop{To: netip.MustParseAddr(to)},
			Next: host.Next{Link: link, Via: netip.MustParseAddr(via), MAC: mac},
		}
	}
	want := []network.Hop{
		hop("10.2.1.0", "outside0", "198.19.2.2", ""), hop("198.19.1.2", "inside0", "198.19.1.2", ""),
		hop("198.18.0.2", "up0", "198.18.0.2", network.MAC(lab.Seed, "host2", "up0")),
	}
	if diff := cmp.Diff(want, w.Hops, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("hops (-want +got):\n%s", diff)
	}
	for _, c := range w.Counters {
		if up := strings.Contains(c.Name, "up0") || c.Host == 0; c.Others != up {
			t.Errorf("%s counts packets of others: %t, want %t", c.Counter, c.Others, up)
		}
	}
	if len(w.Counters) != 2+2+4 {
		t.Errorf("%d counters: %v, want two of each device and the underlay's", len(w.Counters), w.Counters)
	}
	// what has the link and the addresses of the span below is no hop, and what sends frames takes no route below
	for name, tt := range map[string]struct {
		change   func(*network.Span)
		want     []network.Hop
		counters int
	}{
		"addressed": {
			func(s *network.Span) { s.Addressed, s.Reach = true, lab.Spans[0].Reach }, []network.Hop{want[0], want[2]}, 2 + 4,
		},
		"frames": {func(s *network.Span) { s.Outer = "" }, want[:2], 2 + 2 + 4},
	} {
		changed := lab
		changed.Spans = slices.Clone(lab.Spans)
		tt.change(&changed.Spans[1])
		var w network.Way
		w.Carried(network.Trip{Lab: changed, Family: "ipv4", From: stop(0, "10.1.1.0"), To: stop(1, "10.2.1.0")})
		if diff := cmp.Diff(tt.want, w.Hops, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s: hops (-want +got):\n%s", name, diff)
		}
		if len(w.Counters) != tt.counters {
			t.Errorf("%s: %d counters, want %d", name, len(w.Counters), tt.counters)
		}
	}
}

// The largest packet is one whose length below is no more than it may be.
func TestLargestPacket(t *testing.T) {
	for _, tt := range []struct {
		o           network.Overhead
		below, want int
	}{
		{network.Overhead{Bytes: 50}, 1500, 1450},
		{network.Overhead{Bytes: 60, Padding: 16}, 1500, 1440},
		{network.Overhead{Bytes: 60, Padding: 16, Trailer: 2}, 1500, 1438},
		{network.Overhead{Bytes: 60, Padding: 16, Trailer: 2}, 1499, 1422},
		{network.Overhead{Bytes: 60, Padding: 4, Trailer: 2}, 1499, 1434},
		{network.Overhead{Bytes: 60, Padding: 4, Trailer: 2, Limit: 1400}, 1500, 1398},
		{network.Overhead{Bytes: 60, Padding: 16, Trailer: 2, Limit: 1400}, 9000, 1390},
		{network.Overhead{Bytes: 60, Limit: 1400}, 1450, 1390},
		{network.Overhead{Bytes: 36, Padding: 16, Trailer: 2, Header: 20}, 1500, 1458},
		{network.Overhead{Bytes: 36, Padding: 16, Trailer: 2, Header: 40}, 1500, 1462},
		{network.Overhead{Bytes: 36, Padding: 16, Trailer: 2, Header: 20, Limit: 1400}, 9000, 1394},
	} {
		got := tt.o.Largest(tt.below)
		if on := tt.o.On(got, got); got != tt.want || on > tt.below {
			t.Errorf("the largest packet with %+v on %d bytes has %d and takes %d, want %d", tt.o, tt.below, got, on, tt.want)
		}
	}
}

// Packets are padded to multiples, but not beyond the MTU.
func TestOverheadOn(t *testing.T) {
	padded := network.Overhead{Bytes: 60, Padding: 16}
	trailed := network.Overhead{Bytes: 60, Padding: 16, Trailer: 2}
	for _, tt := range []struct {
		o                 network.Overhead
		packet, mtu, want int
	}{
		{trailed, 61, 1374, 64 + 60},
		{trailed, 62, 1374, 64 + 60},
		{trailed, 63, 1374, 80 + 60},
		{trailed, 1374, 1374, 1376 + 60},
		{network.Overhead{Bytes: 36, Padding: 16, Trailer: 2, Header: 20}, 100, 1458, 20 + 96 + 36},
		{network.Overhead{Bytes: 36, Padding: 16, Trailer: 2, Header: 20}, 1458, 1458, 1496},
		{padded, 56, 1380, 64 + 60},
		{padded, 64, 1380, 64 + 60},
		{padded, 1377, 1380, 1380 + 60},
		{padded, 1380, 1380, 1380 + 60},
		{network.Overhead{Bytes: 50}, 56, 1380, 56 + 50},
	} {
		if got := tt.o.On(tt.packet, tt.mtu); got != tt.want {
			t.Errorf("%d bytes with %+v on an MTU of %d are %d, want %d", tt.packet, tt.o, tt.mtu, got, tt.want)
		}
	}
}

// A counter on a way that joins packets may count as many of them as one, and no more.
func TestMergedPackets(t *testing.T) {
	counter := host.Received("", "wg0", "")
	for _, tt := range []struct {
		merged  int
		counted uint64
		wrong   bool
	}{{0, 256, false}, {0, 255, true}, {128, 2, false}, {128, 1, true}} {
		var p network.Paths
		p.Add("trip", network.Way{Merged: tt.merged, Counters: []network.Count{{Host: 1, Counter: counter}}})
		at := func(n uint64) []host.Trace {
			return []host.Trace{{}, {Counts: map[string]map[string]uint64{"": {counter.Name: n}}}}
		}
		if err, _ := p.Counted(at(0), at(tt.counted), []int64{256}, nil); (err != nil) != tt.wrong {
			t.Errorf("%d of 256 packets counted, %d as one at most: %v", tt.counted, tt.merged, err)
		}
	}
}

// A device may count what the sources of all ways through it sent, and strays again after each five seconds. Large
// segments may be cut between hosts. What carriers or switches count is not compared.
func TestBeyond(t *testing.T) {
	at := func(on int, link string) network.Count {
		return network.Count{Host: on, Counter: host.Received("", link, "")}
	}
	others, again := at(1, "sink"), at(1, "sink")
	others.Others, again.Repeats = true, true
	const strays = 16 + 4*2 // of two trips
	for name, c := range map[string]struct {
		sink    network.Count
		large   bool
		cut     bool
		seconds int
		counted uint64
		want    string
	}{
		"as many":             {sink: at(1, "sink"), counted: 300 + strays},
		"one more":            {sink: at(1, "sink"), counted: 301 + strays, want: "sent no more than 300 there"},
		"after a while":       {sink: at(1, "sink"), seconds: 5, counted: 300 + 2*strays},
		"too many by then":    {sink: at(1, "sink"), seconds: 5, counted: 301 + 2*strays, want: "than 300 there"},
		"on one host":         {sink: at(1, "sink"), large: true, cut: true, counted: 301 + strays, want: "than 300 there"},
		"cut between hosts":   {sink: at(2, "sink"), large: true, cut: true, counted: 128*300 + strays},
		"too many pieces":     {sink: at(2, "sink"), large: true, cut: true, counted: 38401 + strays, want: "38400"},
		"whole between hosts": {sink: at(2, "sink"), large: true, counted: 301 + strays, want: "than 300 there"},
		"small between hosts": {sink: at(2, "sink"), cut: true, counted: 301 + strays, want: "than 300 there"},
		"of others, too":      {sink: others, counted: 1e6},
		"by a switch":         {sink: again, counted: 1e6},
	} {
		p := network.Paths{Large: c.large, Cut: c.cut}
		for _, source := range []string{"a", "b"} {
			p.Add(source, network.Way{Counters: []network.Count{at(1, source), c.sink}})
		}
		traces := func(a, b, sink uint64) []host.Trace {
			list := make([]host.Trace, 3)
			for i := range list {
				list[i].Counts = map[string]map[string]uint64{"": {
					host.Received("", "a", "").Name: a, host.Received("", "b", "").Name: b,
					host.Received("", "sink", "").Name: sink,
				}}
			}
			return list
		}
		err := p.Beyond(traces(7, 7, 7), traces(107, 207, 7+c.counted), time.Duration(c.seconds)*time.Second)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The first counter that is short on the way is that nearest to the source, whatever the order in which a way lists
// those of the other host.
func TestShort(t *testing.T) {
	at := func(on int, link string) network.Count {
		return network.Count{Host: on, Counter: host.Received("", link, "")}
	}
	traces := func(counts [3]map[string]uint64) (list []host.Trace) {
		for _, of := range counts {
			one := host.Trace{Counts: map[string]map[string]uint64{"": {}}}
			for _, link := range []string{"port", "a", "vxlan", "up", "b"} {
				one.Counts[""][host.Received("", link, "").Name] = of[link]
			}
			list = append(list, one)
		}
		return list
	}
	var p network.Paths
	p.Add("pair 0, ipv4", network.Way{Counters: []network.Count{
		at(1, "a"), at(1, "vxlan"), at(2, "vxlan"), at(1, "up"), at(0, "port"), at(2, "up"), at(2, "b"),
	}})
	for _, tt := range []struct {
		counts [3]map[string]uint64 // of the underlay and of both hosts
		want   string
	}{
		{[3]map[string]uint64{{"port": 12}, {"a": 12, "vxlan": 12, "up": 12}, {"vxlan": 12, "up": 12, "b": 12}}, ""},
		{[3]map[string]uint64{{"port": 0}, {"a": 0, "vxlan": 0, "up": 0}, {"vxlan": 0, "up": 0, "b": 0}}, ""},
		{
			[3]map[string]uint64{{"port": 0}, {"a": 12, "vxlan": 12, "up": 3}, {"vxlan": 0, "up": 0, "b": 0}},
			"pair 0, ipv4: host1 counted 3 packets received by up, but 12 were sent",
		},
		{
			[3]map[string]uint64{{"port": 1}, {"a": 12, "vxlan": 12, "up": 12}, {"vxlan": 0, "up": 0, "b": 0}},
			"pair 0, ipv4: the underlay counted 1 packets received by port, but 12 were sent",
		},
		{
			[3]map[string]uint64{{"port": 12}, {"a": 12, "vxlan": 12, "up": 12}, {"vxlan": 0, "up": 2, "b": 0}},
			"pair 0, ipv4: host2 counted 2 packets received by up, but 12 were sent",
		},
		{
			[3]map[string]uint64{{"port": 12}, {"a": 12, "vxlan": 12, "up": 12}, {"vxlan": 12, "up": 12, "b": 1}},
			"pair 0, ipv4: host2 counted 1 packets received by b, but 12 were sent",
		},
	} {
		if got := p.Short(traces([3]map[string]uint64{}), traces(tt.counts), 0, 12); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.counts, got, tt.want)
		}
	}
}
