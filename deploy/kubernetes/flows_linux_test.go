package kubernetes

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// here is where messages arrive in these tests.
var here = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), flowPort)

// soon waits until something is so.
func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("after 10 s it is not so: %s", what)
		}
	}
}

// Messages of each kind arrive with their numbers and the times at which they were sent, until the flow ends.
func TestFlows(t *testing.T) {
	testnet.Root(t)
	workloadtest.Loopback(t)
	r, err := receive()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for i, kind := range []FlowKind{FlowNew, FlowUDP, FlowTCP} {
		t.Run(string(kind), func(t *testing.T) {
			const some = 50
			flow := uint32(i + 1)
			s, err := send(sending{Flow: flow, Kind: kind, To: here, Every: time.Millisecond}, 0)
			if err != nil {
				t.Fatal(err)
			}
			soon(t, "messages arrive", func() bool { return r.since(flow, -1).Count >= some })
			sent := s.stop()
			soon(t, "all have arrived", func() bool { return r.since(flow, -1).Count == sent })
			all := r.since(flow, -1)
			last, err := s.at(sent - 1)
			if err != nil || all.First.Number != 0 || all.Last.Number != sent-1 || all.Last.Sent != last.At ||
				all.Last.At < last.At || all.Now < all.Last.At {
				t.Errorf("of %d messages, the last sent at %d, arrived %+v, %v", sent, last.At, all, err)
			}
			if half := r.since(flow, some/2); half.Count != sent-some/2-1 || half.First.Number != some/2+1 {
				t.Errorf("behind message %d of %d arrived %+v", some/2, sent, half)
			}
			if _, err := s.at(sent); err == nil {
				t.Errorf("message %d was sent, behind the last one", sent)
			}
		})
	}
	if _, err := send(sending{Kind: "sctp", To: here, Every: time.Second}, 0); err == nil {
		t.Error("a flow of an unknown kind is sent")
	}
}

// New flows have a port each, and nobody answers them; a flow that is to be established has one port, and is answered.
func TestFlowPorts(t *testing.T) {
	testnet.Root(t)
	workloadtest.Loopback(t)
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(here))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const some = 200
	for kind, want := range map[FlowKind]int{FlowNew: some, FlowUDP: 1} {
		s, err := send(sending{Flow: 7, Kind: kind, To: here, Every: time.Millisecond}, 0)
		if err != nil {
			t.Fatal(err)
		}
		from, flags := map[uint16]bool{}, map[uint32]bool{}
		b := make([]byte, messageSize+1)
		for range some {
			n, at, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				t.Fatal(err)
			}
			_, f, _, ok := decode(b[:n])
			if !ok {
				t.Fatalf("% x is not a message", b[:n])
			}
			from[at.Port()], flags[f] = true, true
		}
		s.stop()
		for len(b) > 0 { // what is left of this flow
			if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.ReadFromUDPAddrPort(b); err != nil {
				break
			}
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if len(from) != want || len(flags) != 1 || flags[answered] != (kind == FlowUDP) {
			t.Errorf("%s: %d ports and flags %v, want %d ports", kind, len(from), flags, want)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := receive()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	asks, err := net.Dial("udp", here.String())
	if err != nil {
		t.Fatal(err)
	}
	defer asks.Close()
	var message [messageSize]byte
	got := make([]byte, messageSize)
	for flags, want := range map[uint32]bool{answered: true, 0: false} {
		encode(&message, 8, 0, flags, 1)
		if _, err := asks.Write(message[:]); err != nil {
			t.Fatal(err)
		}
		soon(t, "the message has arrived", func() bool { return r.since(8, -1).Count > 0 })
		wait := 10 * time.Second
		if !want {
			wait = 50 * time.Millisecond
		}
		if err := asks.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		if _, err := asks.Read(got); (err == nil) != want {
			t.Errorf("flags %d: answered: %v (%v), want %v", flags, err == nil, err, want)
		}
	}
}

// A fresh pod sends from its start on, and reports what came, with times since its start.
func TestFresh(t *testing.T) {
	testnet.Root(t)
	workloadtest.Loopback(t)
	peer, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	const life, every = 5 * time.Second, 50 * time.Millisecond
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	began := clock.Now()
	ended := make(chan freshReport, 1)
	go func() {
		report, err := fresh(t.Context(), freshSpec{
			sending: sending{Flow: 9, Kind: FlowNew, To: to, Every: every},
			Life:    life,
		}, began)
		if err != nil {
			t.Error(err)
		}
		ended <- report
	}()
	b := make([]byte, messageSize)
	if _, _, err := peer.ReadFromUDPAddrPort(b); err != nil {
		t.Fatal(err)
	}
	_, _, first, ok := decode(b)
	if !ok || first.Number != 0 || first.Sent <= 0 || time.Duration(first.Sent) > life/2 {
		t.Errorf("the first message is %+v, want number 0, sent soon after the start", first)
	}
	s, err := send(sending{Flow: 9, Kind: FlowNew, To: here, Every: every}, 0)
	if err != nil {
		t.Fatal(err)
	}
	report := <-ended
	sent := s.stop()
	if most := int(life/every) + 1; report.Sent < 2 || report.Sent > most || report.Arrived.Count < 2 ||
		report.Arrived.Count > sent {
		t.Errorf("%d of at most %d messages were sent, and %d of %d arrived", report.Sent, most, report.Arrived.Count, sent)
	}
	begin, end := time.Duration(report.Arrived.First.At), time.Duration(report.Arrived.Last.At)
	if begin <= 0 || end <= begin || end > life+life/2 {
		t.Errorf("messages arrived from %v to %v after the start of a life of %v", begin, end, life)
	}
}

// A policy refuses everything in one direction, or allows the other end; address ranges that nobody has are besides.
func TestPolicyObjects(t *testing.T) {
	p := &Policing{
		deployment: &Deployment{run: "r", scouts: jobSpec{name: "s", apart: true}, owner: object{}}, name: "n",
		source: end{index: 1}, sink: end{index: 0},
	}
	source := object{"matchLabels": object{jobLabel: "s", podLabel: "1"}}
	sink := object{"matchLabels": object{jobLabel: "s", podLabel: "0"}}
	nobody := object{"ipBlock": object{"cidr": "198.19.0.0/32"}}
	for _, c := range []struct {
		policy Policy
		name   string
		spec   object
	}{
		{
			Policy{Direction: Ingress},
			"n-deny-ingress",
			object{"podSelector": sink, "policyTypes": []string{"Ingress"}},
		},
		{
			Policy{Direction: Egress, Rules: 1}, "n-deny-egress", object{
				"podSelector": source, "policyTypes": []string{"Egress"},
				"egress": []object{{"to": []object{nobody}}},
			},
		},
		{
			Policy{Direction: Ingress, Allow: true}, "n-allow-ingress", object{
				"podSelector": sink, "policyTypes": []string{"Ingress"},
				"ingress": []object{{"from": []object{{"podSelector": source}}}},
			},
		},
		{
			Policy{Direction: Egress, Allow: true}, "n-allow-egress", object{
				"podSelector": source, "policyTypes": []string{"Egress"},
				"egress": []object{{"to": []object{{"podSelector": sink}}}},
			},
		},
		{
			Policy{Direction: Egress, Fresh: true}, "n-fresh-egress", object{
				"podSelector": object{"matchLabels": object{labLabel: "n-selected"}}, "policyTypes": []string{"Egress"},
			},
		},
	} {
		got := p.object(c.policy)
		if diff := cmp.Diff(c.spec, got["spec"]); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.policy, diff)
		}
		if meta, _ := got["metadata"].(object); meta["name"] != c.name {
			t.Errorf("%+v is called %v, want %s", c.policy, meta["name"], c.name)
		}
	}
}
