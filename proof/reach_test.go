package proof_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// stand makes a machine as a plan has it, until the test ends.
func stand(t *testing.T, plan host.Plan) *testnet.Machine {
	t.Helper()
	machine := testnet.New(t)
	var kernel *host.Kernel
	if err := machine.Do(func() (err error) {
		kernel, err = host.NewKernel(host.KernelConfig{Dir: machine.Dir})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var stack host.Stack
	err := stack.Apply(t.Context(), kernel, plan)
	t.Cleanup(func() {
		if err := errors.Join(stack.Undo(context.Background(), kernel), kernel.Close()); err != nil {
			t.Error(err)
		}
	})
	testnet.Skip(t, err)
	if err := stack.Verify(t.Context(), kernel); err != nil { // it waits for the carrier: until then packets are dropped
		t.Fatal(err)
	}
	return machine
}

// Between two containers that nothing separates everything is open. If a filter is claimed there, each packet that
// arrives and is not on the list is a leak, also where no answer could come back. What is on the list and does not
// arrive is missing. The counters of the containers' kernels agree.
func TestReach(t *testing.T) {
	plan := host.Plan{Steps: []host.Step{
		host.Namespace{Name: "src0"},
		host.Namespace{Name: "snk0"},
		host.Veth{
			NS: "src0", Name: "eth0", MAC: "02:00:00:00:00:01", MTU: 1500, Addresses: []string{"10.9.0.1/24", "fd00:9::1/64"},
			PeerNS: "snk0", PeerName: "eth0", PeerMAC: "02:00:00:00:00:02", PeerAddresses: []string{"10.9.0.2/24", "fd00:9::2/64"},
		},
	}}
	machine := stand(t, plan)
	l := proof.Lab{
		Hosts: []proof.Host{{Name: "host1"}}, Families: []string{"ipv4", "ipv6"}, MTU: 1500,
		Pairs: []proof.Pair{{Source: "src0", Sink: "snk0"}},
	}
	for i, name := range []string{"src0", "snk0"} {
		v4, v6 := netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + i)}), netip.MustParseAddr(fmt.Sprintf("fd00:9::%d", 1+i))
		l.Hosts[0].Containers = append(l.Hosts[0].Containers, proof.Container{
			Name: name, Namespace: name, Inner: "eth0", IPv4: v4, IPv6: v6, PublicIPv4: v4, PublicIPv6: v6,
			First: uint16(20_000 + 100*i), Last: uint16(20_049 + 100*i),
		})
	}
	open := func(_ int, name string) (*os.File, error) {
		if name == "" {
			return os.Open(fmt.Sprintf("/proc/self/fd/%d", machine.NS.Fd()))
		}
		return netns.Open(machine.Dir + "/" + name)
	}
	reach := func(claimed bool) measure.Matrix {
		t.Helper()
		l.Filtered = claimed
		m := proof.Reach(t.Context(), l, proof.Survey{Open: open})
		if m.NotTried != "" || m.Untold != "" {
			t.Fatalf("not tried: %q, cannot be told: %q", m.NotTried, m.Untold)
		}
		return m
	}
	rows := func(m measure.Matrix) []string {
		return append(append([]string{}, m.Cells["ipv4"]...), m.Cells["ipv6"]...)
	}

	// what a container knew before stays known, and it is not left knowing anybody else
	known := netlink.Neigh{
		IP: net.IPv4(10, 9, 0, 77).To4(), HardwareAddr: []byte{2, 0, 0, 0, 0, 77}, State: netlink.NUD_STALE,
	}
	inside(t, open, "src0", func(h *link.Handle) error {
		at, err := h.ByName("eth0")
		known.LinkIndex = at.Index
		return errors.Join(err, netlink.NeighSet(&known))
	})
	m := reach(false)
	for name, want := range map[string]string{"src0": "10.9.0.77", "snk0": "", "": ""} {
		inside(t, open, name, func(h *link.Handle) error {
			left, err := h.Learned()
			var addresses []string
			for _, n := range left {
				addresses = append(addresses, n.Address.String())
			}
			if got := strings.Join(addresses, " "); got != want || err != nil {
				t.Errorf("%q knows the neighbours %q after a proof (%v), want %q", name, got, err, want)
			}
			return nil
		})
	}
	inside(t, open, "src0", func(*link.Handle) error { return netlink.NeighDel(&known) })
	// src0, snk0, host1 (which has no address), multicast, broadcast (of IPv4)
	if diff := cmp.Diff([]string{"-o-oo", "o--oo", "-o-o-", "o--o-"}, rows(m)); diff != "" {
		t.Errorf("without a filter (-want +got):\n%s", diff)
	}
	if len(m.Proofs()) > 0 || m.LeaksAll+m.MissingAll > 0 {
		t.Errorf("without a filter nothing is claimed: %+v", m)
	}

	m = reach(true)
	if diff := cmp.Diff([]string{"-L-LL", "L--LL", "-L-L-", "L--L-"}, rows(m)); diff != "" {
		t.Errorf("a filter that is none (-want +got):\n%s", diff)
	}
	all := m.LeaksAll
	confined(t, &l, reach, m)

	// no answer comes back
	inside(t, open, "snk0", func(h *link.Handle) error {
		at, err := h.ByName("eth0")
		if err != nil {
			return err
		}
		return h.DeleteAddress(at.Index, netip.MustParsePrefix("10.9.0.2/24"))
	})
	inside(t, open, "snk0", func(h *link.Handle) error {
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		return h.AddAddress(lo.Index, netip.MustParsePrefix("10.9.0.2/32"))
	})
	m = reach(true)
	if got := rows(m)[0]; got != "-L-LL" {
		t.Errorf("one way is open: %q, want a leak from src0 to snk0 (%q)", got, m.Leaks)
	}
	if m.LeaksAll >= all || !strings.Contains(m.Leaks[0], "from src0 for snk0 (10.9.0.2") {
		t.Errorf("one way is open: %d leaks of %d before: %q", m.LeaksAll, all, m.Leaks)
	}

	inside(t, open, "snk0", func(h *link.Handle) error {
		at, err := h.ByName("eth0")
		if err != nil {
			return err
		}
		return h.SetUp(at.Index, false)
	})
	m = reach(true)
	if got := rows(m)[0]; got != "-m-rr" || m.LeaksAll > 0 || m.MissingAll != 4 {
		t.Errorf("the link is down: %q, %d leaks, %d missing: %q", got, m.LeaksAll, m.MissingAll, m.Missing)
	}
	var failed []string
	for _, p := range m.Proofs() {
		if !p.OK {
			failed = append(failed, p.Name)
		}
	}
	if diff := cmp.Diff([]string{measure.MatrixListed}, failed); diff != "" {
		t.Errorf("claims that fail (-want +got):\n%s", diff)
	}
}

// confined tries the same from containers whose root may not do everything. With CAP_NET_RAW nothing changes. Without
// it only what any program sends arrives, and the rest has not been sent; so nothing is said of it.
func confined(t *testing.T, l *proof.Lab, reach func(claimed bool) measure.Matrix, whole measure.Matrix) {
	t.Helper()
	defer func() {
		for i := range l.Hosts[0].Containers {
			l.Hosts[0].Containers[i].Capabilities = nil
		}
	}()
	for _, c := range []struct {
		set     uint64
		arrived map[string]int
		unsent  []string
	}{
		{1 << 13, whole.Arrived, nil},
		{
			^uint64(1 << 13),
			map[string]int{"udp": 0},
			[]string{"ICMP echo", "UDP to port 0", "TCP SYN", "TCP ACK"},
		},
	} {
		for i := range l.Hosts[0].Containers {
			l.Hosts[0].Containers[i].Capabilities = &c.set
		}
		m := reach(true)
		if c.unsent != nil { // all but those to port 0 of two containers, by two families
			c.arrived["udp"] = whole.Arrived["udp"] - 4
		}
		if diff := cmp.Diff(c.arrived, m.Arrived); diff != "" {
			t.Errorf("with capabilities %x arrived (-want +got):\n%s", c.set, diff)
		}
		if diff := cmp.Diff(c.unsent, m.UnsentKinds); diff != "" {
			t.Errorf("with capabilities %x was not sent (-want +got):\n%s", c.set, diff)
		}
		if diff := cmp.Diff(whole.Tried, m.Tried); diff != "" || m.MissingAll > 0 {
			t.Errorf("with capabilities %x: %d missing, tried (-want +got):\n%s", c.set, m.MissingAll, diff)
		}
		for _, p := range m.Proofs() {
			says := strings.HasSuffix(p.Claim, " (not sent, for lack of rights: ICMP echo, UDP to port 0, TCP SYN, TCP ACK)")
			if tried := p.Tried["ipv4"] + m.Unsent["ipv4"]; tried != m.Tried["ipv4"] || says != (c.unsent != nil) {
				t.Errorf("with capabilities %x a claim is %q, shown by %d of %d tries", c.set, p.Claim, p.Tried["ipv4"],
					m.Tried["ipv4"])
			}
		}
	}
}

// inside calls f with the links of a namespace.
func inside(t *testing.T, open func(int, string) (*os.File, error), name string, f func(h *link.Handle) error) {
	t.Helper()
	ns, err := open(0, name)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := netns.Do(int(ns.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	}); err != nil {
		t.Fatal(err)
	}
}

// Containers that share a namespace, and hosts that cannot be entered, are not tried, with the reason; nothing is
// claimed of them then.
func TestReachNotTried(t *testing.T) {
	shared := described(1)
	shared.Hosts[0].Containers[0].Namespace = ""
	m := proof.Reach(t.Context(), shared, proof.Survey{})
	if m.NotTried != proof.ErrShared.Error() || m.Proofs() != nil {
		t.Errorf("%+v", m)
	}
	m = proof.Reach(t.Context(), described(1), proof.Survey{Open: func(int, string) (*os.File, error) {
		return nil, os.ErrPermission
	}})
	if !strings.Contains(m.NotTried, "src0: permission denied") || m.Proofs() != nil {
		t.Errorf("%+v", m)
	}
}
