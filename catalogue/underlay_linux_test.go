package catalogue_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof/busy"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/kv"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// carriers returns a stack of the parts named, by kind.
func carriers(t *testing.T, named map[string]string) stack.Stack {
	t.Helper()
	var s stack.Stack
	for _, kind := range []string{"tunnel", "encryption"} {
		if named[kind] == "" {
			continue
		}
		c, err := catalogue.New().Kinds.Choose(kind, named[kind], nil)
		if err != nil {
			t.Fatal(err)
		}
		testnet.Skip(t, network.CheckCarrier(kind, stack.Stack{c}))
		s = append(s, c)
	}
	return s
}

// refused reports whether carriers cannot stand on an underlay. Stacks with them are then left out with that reason.
// Only those may be that put something other than IP on the wire.
func refused(t *testing.T, m network.Medium, between stack.Stack) bool {
	t.Helper()
	n := stack.Choice{Kind: network.Kind{bridge.Network{}}, Part: stack.Part{Value: bridge.Network{}}}
	reason := network.RefuseUnderlay(append(stack.Stack{n}, between...), 2, m)
	if reason == "" {
		return false
	}
	lab, err := network.Compose(networktest.Lab(2, 1), between)
	if err != nil {
		t.Fatal(err)
	}
	if wire := lab.Top().Wire; len(wire) != 1 || wire[0].Number < 0x600 { // an EtherType, see [network.Protocol]
		t.Errorf("it sends %v and is refused: %s", wire, reason)
	}
	return true
}

// over builds a lab of two hosts with bridges, joined by carriers over an underlay.
func over(t *testing.T, m network.Medium, between stack.Stack) *networktest.Bed {
	t.Helper()
	lab := networktest.Lab(2, 1)
	lab.Underlay = m
	lab, err := network.Compose(lab, between)
	if err != nil {
		t.Fatal(err)
	}
	b, err := networktest.MakeBed(t, bridge.Network{}, lab)
	testnet.Skip(t, err)
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	})
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	return b
}

// Each tunnel and each encryption reaches hosts that are no neighbours: over one router, over a router of each host,
// and over two paths.
func TestRoutedUnderlay(t *testing.T) {
	media := []network.Medium{{Hops: 1}, {Hops: 2}, {Paths: 2}}
	i := 0
	for _, k := range catalogue.New().Kinds {
		for _, p := range k.Parts() {
			if _, ok := p.Value.(network.Carrier); !ok {
				continue
			}
			m := media[i%len(media)]
			i++
			t.Run(fmt.Sprintf("%s, %s", p.Name, m), func(t *testing.T) {
				t.Parallel()
				between := carriers(t, map[string]string{k.Describe().Name: p.Name})
				if refused(t, m, between) {
					return
				}
				b := over(t, m, between)
				next, counted, err := b.Carry(t, bridge.Network{})
				if err := errors.Join(err, next, counted); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if i == 0 {
		t.Error("there is no carrier")
	}
}

// Flows spread over two paths by their ports. What carries them decides what is left of that: VXLAN and GENEVE have a
// source port for each flow inside, and all others have one flow between two hosts. The packets of a flow take one
// path.
func TestPaths(t *testing.T) {
	all := []map[string]string{{}, {"tunnel": "vxlan", "encryption": "wireguard"}}
	for _, k := range catalogue.New().Kinds {
		for _, p := range k.Parts() {
			if _, ok := p.Value.(network.Carrier); ok {
				all = append(all, map[string]string{k.Describe().Name: p.Name})
			}
		}
	}
	for _, named := range all {
		t.Run(named["tunnel"]+"+"+named["encryption"], func(t *testing.T) {
			t.Parallel()
			tunnel, encryption := named["tunnel"], named["encryption"]
			spreads := encryption == "" && (tunnel == "" || tunnel == "vxlan" || tunnel == "geneve")
			m, between := network.Medium{Paths: 2}, carriers(t, named)
			if refused(t, m, between) {
				return
			}
			b := over(t, m, between)
			for _, family := range []string{"ipv4", "ipv6"} {
				const flows, each = 64, 8
				if one := spread(t, b, family, 1, flows*each); min(one[0], one[1]) > few {
					t.Errorf("%s: packets of one flow take both paths: %v", family, one)
				}
				many := spread(t, b, family, flows, each)
				t.Logf("%s: %v", family, many)
				// that no more than a fifth of 64 flows are on a path happens by chance once in a million times
				if spreads != (min(many[0], many[1]) > flows*each/5) || !spreads && min(many[0], many[1]) > few {
					t.Errorf("%s: %d packets of %d flows are %v on the paths, and they should spread: %v", family, flows*each,
						flows, many, spreads)
				}
			}
		})
	}
}

// few is how many packets may pass a path that nobody sent: of neighbours, and of what a carrier says by itself.
const few = 40

// spread sends datagrams of so many flows from host 1 to host 2, wants each to arrive once, and returns how many
// packets each path has carried. Their order depends on more than paths: programs and the kernel's WireGuard send on
// any CPU. If one is missing that other work may have lost, all are sent anew.
func spread(t *testing.T, b *networktest.Bed, family string, flows, each int) (carried [2]int) {
	t.Helper()
	for again := 0; ; again++ {
		excused, lost := busy.Watch(), busy.Losses()
		carried, err := spreadOnce(t, b, family, flows, each)
		if err == nil {
			return carried
		}
		if again == busy.Again || !excused() {
			t.Fatalf("%s: %v%s", family, err, lost())
		}
		t.Logf("%s: once more: %v%s", family, err, lost())
	}
}

// spreadOnce is spread without another try. The error says which datagram is missing.
func spreadOnce(t *testing.T, b *networktest.Bed, family string, flows, each int) (carried [2]int, missing error) {
	t.Helper()
	source, sink := b.Ends[0][0], b.Ends[1][0]
	open := func(m *networktest.Machine, e network.Endpoint, how func() (*net.UDPConn, error)) (c *net.UDPConn) {
		if err := m.Kernel.Do(e.Namespace, func() (err error) {
			c, err = how()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	in := open(b.Hosts[1], sink, func() (*net.UDPConn, error) {
		// Any free port: the last one may still be in use, by a program that another test starts just now and that has
		// inherited the socket until it is executed.
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(sink.Bind(family), 0)))
	})
	defer in.Close()
	to := netip.AddrPortFrom(sink.Public(family), in.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	before := paths(t, b)
	got := make([]byte, 8)
	type datagram struct {
		from   netip.AddrPort
		number uint64
	}
	seen := map[datagram]bool{}
	out := make([]*net.UDPConn, flows)
	for i := range out {
		// what a connected socket sends has a hash of the flow, which the kernel keeps from namespace to namespace
		out[i] = open(b.Hosts[0], source, func() (*net.UDPConn, error) {
			return net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(source.Bind(family), 0)),
				net.UDPAddrFromAddrPort(to))
		})
		defer out[i].Close()
	}
	const window = 16 // datagrams that are under way
	for sent, arrived := 0, 0; arrived < flows*each; {
		for ; sent < flows*each && sent < arrived+window; sent++ {
			if _, err := out[sent/each].Write(binary.BigEndian.AppendUint64(nil, uint64(sent%each))); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, from, err := in.ReadFromUDPAddrPort(got)
		if err != nil {
			return carried, fmt.Errorf("datagram %d of %d: %w", arrived, flows*each, err)
		}
		one := datagram{from, binary.BigEndian.Uint64(got)}
		if seen[one] {
			t.Fatalf("%s: datagram %d of a flow arrives twice", family, one.number)
		}
		seen[one] = true
		arrived++
	}
	after := paths(t, b)
	for p := range carried {
		carried[p] = int(after[p] - before[p])
	}
	return carried, nil
}

// paths returns how many packets from host 1 each path has carried.
func paths(t *testing.T, b *networktest.Bed) (counts [2]uint64) {
	t.Helper()
	trace, err := b.Underlay.Stack.Trace(t.Context(), b.Underlay.Kernel, host.Question{})
	if err != nil {
		t.Fatal(err)
	}
	for p := range counts {
		c := host.Received("", fmt.Sprintf("p%dr1", p), fmt.Sprintf("path%d", p))
		n, ok := trace.Count(c)
		if !ok {
			t.Fatalf("the underlay does not count %s", c)
		}
		counts[p] = n
	}
	return counts
}

// Clients get their connections over a way that takes longer than they wait before they try once more: all of these tries
// are on their way then, and the first to come is the connection.
func TestLongWay(t *testing.T) {
	lab := networktest.Lab(2, 1)
	lab.Underlay.Delay = 250 * time.Millisecond
	testnet.Skip(t, lab.Underlay.Check())
	b := networktest.Stand(t, bridge.Network{}, lab)
	where := map[workload.Side]workloadtest.Where{}
	for i, side := range []workload.Side{workload.Source, workload.Sink} {
		e := b.Ends[i][0]
		where[side] = workloadtest.Where{Address: e.IPv4, Do: func(f func() error) error {
			return b.Hosts[i].Kernel.Do(e.Namespace, f)
		}}
	}
	socket := func(side workload.Side) *net.UDPConn {
		var c *net.UDPConn
		if err := where[side].Do(func() (err error) {
			c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(where[side].Address, 9)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	near, far := socket(workload.Source), socket(workload.Sink)
	for _, way := range [][2]*net.UDPConn{{near, far}, {far, near}} { // once an answer is there, all neighbours are known
		from, to := way[0], way[1]
		if _, err := from.WriteTo([]byte("known?"), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if err := to.SetReadDeadline(time.Now().Add(20 * lab.Underlay.Delay)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := to.ReadFrom(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
	}
	r := workloadtest.NewRig(t, kv.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 2 * time.Second, Given: map[string]string{"clients": "5"}, Where: where,
	})
	if trial, _ := r.Trial(t); trial.Failure() != "" {
		t.Error(trial.Failure())
	}
}
