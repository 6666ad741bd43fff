package worker_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/worker"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// A wall is a filter of a pair of containers, in their own namespaces.
type wall struct {
	first, last uint16 // ports of the sink that let packets in
	mute        bool   // the sink answers no connection
	deaf        bool   // the source lets echo requests in, and its answers not out
}

// build makes it in the namespace of a side.
func (w wall) build(side workload.Side) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "wall"})
	rule := func(hook *nftables.ChainHook, verdict expr.VerdictKind, matches ...[]expr.Any) {
		chain := c.AddChain(&nftables.Chain{
			Name: fmt.Sprint("hook", *hook), Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook,
			Priority: nftables.ChainPriorityFilter,
		})
		var all []expr.Any
		for _, m := range matches {
			all = append(all, m...)
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(all, &expr.Verdict{Kind: verdict})})
	}
	load := func(offset, size uint32) *expr.Payload {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: size}
	}
	is := func(b byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{b}} }
	of := func(protocol byte) []expr.Any {
		return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, is(protocol)}
	}
	flags := func(want byte) []expr.Any { // of SYN and ACK
		return []expr.Any{
			load(13, 1), &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{0x12}, Xor: []byte{0}}, is(want),
		}
	}
	kind := func(b byte) []expr.Any { return []expr.Any{load(0, 1), is(b)} }
	ports := []expr.Any{load(2, 2), &expr.Range{
		Op: expr.CmpOpEq, Register: 1, FromData: binary.BigEndian.AppendUint16(nil, w.first),
		ToData: binary.BigEndian.AppendUint16(nil, w.last),
	}}
	const icmp, tcp, udp = 1, 6, 17
	in, out := nftables.ChainHookInput, nftables.ChainHookOutput
	if side == workload.Sink {
		rule(in, expr.VerdictAccept, of(udp), ports)
		rule(in, expr.VerdictAccept, of(tcp), ports)
		if w.mute {
			rule(out, expr.VerdictDrop, of(tcp), flags(0x12))
		}
	}
	if side == workload.Source && w.deaf {
		rule(out, expr.VerdictDrop, of(icmp), kind(0))
	} else if side == workload.Source {
		rule(in, expr.VerdictDrop, of(icmp), kind(8))
	}
	rule(in, expr.VerdictDrop, of(udp))
	rule(in, expr.VerdictDrop, of(tcp), flags(0x02))
	return c.Flush()
}

// running waits until the link of a place runs: until then it drops what is sent, and the kernel may be a second late.
func running(t *testing.T, at workloadtest.Where) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		var flags net.Flags
		if err := at.Do(func() error {
			link, err := net.InterfaceByName(workloadtest.VethName)
			if err == nil {
				flags = link.Flags
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if flags&net.FlagRunning != 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the link does not run")
		}
	}
}

// Two workers, each in the namespace of its container, try who reaches whom by what any program may send. What a filter
// lets in too much is found, also if no answer comes back. What cannot be tried is said.
func TestReach(t *testing.T) {
	const first, last = 20_000, 20_010
	holds, refused := "-a---", "r----"
	port0, hosts := "port 0 (no program can listen there)", "hosts and groups (containers cannot count what arrives there)"
	leaks := []string{
		"UDP from src0 for snk0 (192.0.2.2:20010) arrives at snk0",
		"TCP SYN from src0 for snk0 (192.0.2.2:20010) arrives at snk0",
	}
	for _, c := range []struct {
		name    string
		wall    wall
		taken   bool // another program has a port of the sink
		cells   []string
		leaks   []string
		missing int
		arrived map[string]int
		untried []string
		untold  string
	}{
		{
			name: "holds", wall: wall{first: first, last: last - 1}, cells: []string{holds, refused},
			arrived: map[string]int{"icmp": 1, "udp": 1, "tcp-syn": 1},
		},
		{
			name: "leaks", wall: wall{first: first, last: last}, cells: []string{"-L---", refused}, leaks: leaks,
			arrived: map[string]int{"icmp": 1, "udp": 2, "tcp-syn": 2},
		},
		{
			name: "leaks one way", wall: wall{first: first, last: last, mute: true}, cells: []string{"-L---", refused},
			leaks: leaks, arrived: map[string]int{"icmp": 1, "udp": 2, "tcp-syn": 2},
		},
		{
			name: "closed", wall: wall{first: 1, last: 1}, cells: []string{"-m---", refused}, missing: 2,
			arrived: map[string]int{"icmp": 1},
		},
		{
			name: "echo one way", wall: wall{first: first, last: last - 1, deaf: true}, cells: []string{holds, "?----"},
			arrived: map[string]int{"icmp": 1, "udp": 1, "tcp-syn": 1},
			untold:  "src0 counts 1 ICMP echo requests of ipv4, and 0 were answered",
		},
		{
			name: "taken", wall: wall{first: first, last: last - 1}, taken: true, cells: []string{holds, refused},
			arrived: map[string]int{"icmp": 1, "udp": 1, "tcp-syn": 1},
			untried: []string{"UDP for a port of snk0 (another program has it)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			places := workloadtest.Veth(t)
			clients := map[string]*protocol.Client{}
			l := proof.Lab{
				Hosts: []proof.Host{{Name: "host1"}}, Families: []string{"ipv4"}, MTU: 1500, Filtered: true, Stateful: true,
				Pairs: []proof.Pair{{Source: "src0", Sink: "snk0"}},
			}
			for _, side := range []workload.Side{workload.Source, workload.Sink} {
				name, at := map[workload.Side]string{workload.Source: "src0", workload.Sink: "snk0"}[side], places[side]
				if err := at.Do(func() error {
					if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0); err != nil {
						return err
					}
					return c.wall.build(side)
				}); err != nil {
					t.Fatal(err)
				}
				running(t, at)
				clients[name] = start(t, at, nil)
				l.Hosts[0].Containers = append(l.Hosts[0].Containers, proof.Container{
					Name: name, Namespace: name, IPv4: at.Address, PublicIPv4: at.Address, First: first, Last: last,
				})
			}
			if c.taken {
				const highest = 65535
				if err := places[workload.Sink].Do(func() error {
					at := netip.AddrPortFrom(places[workload.Sink].Address, highest)
					s, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
					if err == nil {
						t.Cleanup(func() { _ = s.Close() })
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			// a packet that arrives 120 ms after the last one was sent is missed
			witness.Until(t, witness.Limit{Lost: 60 * time.Millisecond}, func() error {
				m := proof.Reach(t.Context(), l, proof.Survey{Party: func(of proof.Container) proof.Party {
					return worker.Party(clients[of.Name].Call, of.Name, "")
				}})
				if m.NotTried != "" || m.LeaksAll != len(c.leaks) || m.MissingAll != c.missing || m.Untold != c.untold {
					return fmt.Errorf("not tried: %q; %d leaks, want %d; %d missing, want %d: %q; untold: %q, want %q", m.NotTried,
						m.LeaksAll, len(c.leaks), m.MissingAll, c.missing, m.Missing, m.Untold, c.untold)
				}
				type seen struct {
					Cells       map[string][]string
					Leaks       []string
					Arrived     map[string]int
					Untried     []string
					UnsentKinds []string
					Tried       map[string]int
				}
				want := seen{
					map[string][]string{"ipv4": c.cells},
					c.leaks, c.arrived, append([]string{hosts, port0}, c.untried...),
					[]string{"TCP ACK"},
					map[string]int{"ipv4": 17 - len(c.untried)},
				}
				got := seen{m.Cells, m.Leaks, m.Arrived, m.Untried, m.UnsentKinds, m.Tried}
				if diff := cmp.Diff(want, got); diff != "" {
					return fmt.Errorf("-want +got:\n%s", diff)
				}
				for _, p := range m.Proofs() {
					holds := map[string]bool{measure.MatrixLeaks: len(c.leaks) == 0, measure.MatrixListed: c.missing == 0}
					if p.OK != holds[p.Name] {
						return fmt.Errorf("%s: %t, want %t: %s", p.Claim, p.OK, holds[p.Name], p.Detail)
					}
				}
				t.Logf("%.2f s", m.Took)
				return nil
			})
		})
	}
}

// A worker sends and hears nothing for a container that does not listen.
func TestReachRefused(t *testing.T) {
	w := made(t, &entered{}, nil)
	for method, params := range map[string]any{
		worker.ReachSend:  worker.ReachSendParams{ReachParams: worker.ReachParams{Container: "src0"}},
		worker.ReachHeard: worker.ReachParams{Container: "src0"},
	} {
		if _, err := call[any](t, w, method, params); err == nil || err.Error() != `container "src0" does not listen` {
			t.Errorf("%s: %v", method, err)
		}
	}
}
