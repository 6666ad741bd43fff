package host_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
)

// notes is a journal in memory.
type notes struct{ list []host.Note }

func (n *notes) Write(one host.Note) error {
	n.list = append(n.list, one)
	return nil
}

// kernel returns the kernel of a machine that ends with the test.
func kernel(t testing.TB, files map[string]*os.File) (*host.Kernel, *testnet.Machine) {
	t.Helper()
	m := testnet.New(t)
	return steptest.Kernel(t, m, host.KernelConfig{Files: files, Journal: new(notes)}), m
}

// lab returns a plan for a bridge with one container.
func lab() host.Plan {
	return host.Plan{Steps: []host.Step{
		host.Namespace{Name: "c"},
		host.Bridge{Name: "br0", MAC: "02:00:00:00:00:01", MTU: 1400, Addresses: []string{"10.1.0.1/16", "fd00:10:1::1/64"}},
		host.Veth{
			Name: "v0", MAC: "02:00:00:00:00:02", MTU: 1400, Master: "br0", PeerNS: "c", PeerName: "eth0",
			PeerMAC:       "02:00:00:00:00:03",
			PeerAddresses: []string{"10.1.1.0/16", "fd00:10:1::1:0/64"},
		},
		host.Link{Name: "lo", MTU: 1400, Addresses: []string{"10.7.0.1/32", "fd00:7::1/128"}, Up: true},
		host.Route{NS: "c", To: "0.0.0.0/0", Via: "10.1.0.1"},
		host.Route{NS: "c", To: "::/0", Via: "fd00:10:1::1"},
		host.Route{NS: "c", To: "198.51.100.0/24", Dev: "eth0"},
		host.Veth{Name: "way0", PeerName: "way1", PeerAddresses: []string{"10.8.0.1/24", "fd00:8::1/64"}},
		host.Multipath{To: "198.51.100.0/24", Hops: []host.NextHop{{Via: "10.1.0.9", Dev: "br0"}, {Via: "10.8.0.9", Dev: "way1"}}},
		host.Multipath{To: "2001:db8::/64", Hops: []host.NextHop{{Via: "fd00:10:1::9", Dev: "br0"}, {Via: "fd00:8::9", Dev: "way1"}}},
		host.Sysctl{NS: "c", Key: "net.ipv4.tcp_slow_start_after_idle", Value: "0"},
		host.Sysctl{Key: "net.ipv4.ip_forward", Value: "1"},
		host.Sysctl{Key: "net.ipv4.tcp_rmem", Value: "4096 131072  6291456"},
		host.Sysctl{Key: "net.nettoll.none", Value: "1", IfPresent: true},
		host.Sysctl{Key: "net.ipv4.conf.v0.accept_local", Value: "0", IfPresent: true}, // it has this value
	}}
}

func TestSteps(t *testing.T) {
	k, m := kernel(t, nil)
	ctx := t.Context()
	before := links(t, k, "")
	var s host.Stack
	testnet.Skip(t, s.Apply(ctx, k, lab()))
	if s.Len() != len(lab().Steps) {
		t.Errorf("%d steps are on the stack, want %d", s.Len(), len(lab().Steps))
	}
	if err := s.Verify(ctx, k); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.Undo(context.Background(), k); err != nil {
			t.Error(err)
		}
		if err := s.Verify(ctx, k); err != nil {
			t.Errorf("after Undo: %v", err)
		}
		if after := links(t, k, ""); after != before {
			t.Errorf("after Undo there is %s, before there was %s", after, before)
		}
	}
	if entries, err := os.ReadDir(m.Dir); err != nil || len(entries) > 0 {
		t.Errorf("after Undo, %s holds %v (%v), want nothing", m.Dir, entries, err)
	}
	if err := m.Do(func() error {
		v, err := sysctl.Read("net.ipv4.ip_forward")
		if v != "0" {
			t.Errorf("after Undo, net.ipv4.ip_forward is %s, want 0", v)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	// Everything can be done a second time.
	if err := s.Apply(ctx, k, lab()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Verify(ctx, k), s.Undo(context.Background(), k)); err != nil {
		t.Error(err)
	}
}

// links lists the links of a namespace, with their state and addresses.
func links(t *testing.T, k *host.Kernel, ns string) string {
	t.Helper()
	h, err := k.Links(ns)
	if err != nil {
		t.Fatal(err)
	}
	list, err := h.List()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, l := range list {
		addresses, err := h.Addresses(l.Index)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, a := range addresses {
			if a.Addr().IsLoopback() { // they come and go with lo
				continue
			}
			texts = append(texts, a.String())
		}
		parts = append(parts, strings.Join([]string{l.Name, l.Type, l.MAC.String(), strings.Join(texts, ",")}, " "))
	}
	return strings.Join(parts, "; ")
}

func TestVerifyNames(t *testing.T) {
	k, m := kernel(t, nil)
	on := func(ns, name string, f func(*link.Handle, link.Link) error) func() error {
		return func() error {
			h, err := k.Links(ns)
			if err != nil {
				return err
			}
			l, err := h.ByName(name)
			if err != nil {
				return err
			}
			return f(h, l)
		}
	}
	set := func(ns, key, value string) func() error {
		return func() error { return k.Do(ns, func() error { return sysctl.Write(key, value) }) }
	}
	for _, c := range []struct {
		name   string
		tamper func() error
		want   string
	}{
		{"address of a bridge", on("", "br0", func(h *link.Handle, l link.Link) error {
			return h.DeleteAddress(l.Index, netip.MustParsePrefix("10.1.0.1/16"))
		}), "address 10.1.0.1/16 of br0: want present, got absent"},
		{"another address", on("c", "eth0", func(h *link.Handle, l link.Link) error {
			return errors.Join(h.DeleteAddress(l.Index, netip.MustParsePrefix("10.1.1.0/16")),
				h.AddAddress(l.Index, netip.MustParsePrefix("10.1.1.9/16")))
		}), "address 10.1.1.0/16 of eth0: want present, got absent (there is 10.1.1.9/16)"},
		{"IPv6 address", on("c", "eth0", func(h *link.Handle, l link.Link) error {
			return h.DeleteAddress(l.Index, netip.MustParsePrefix("fd00:10:1::1:0/64"))
		}), "address fd00:10:1::1:0/64 of eth0: want present, got absent"},
		{"local route", func() error {
			if err := lab().Steps[2].Verify(k); err != nil { // it comes a little later than the address
				return err
			}
			return k.Do("c", func() error {
				return netlink.RouteDel(&netlink.Route{
					Dst:   &net.IPNet{IP: net.ParseIP("fd00:10:1::1:0"), Mask: net.CIDRMask(128, 128)},
					Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL,
				})
			})
		}, "local route to fd00:10:1::1:0: want present, got absent"},
		{
			"mtu", on("c", "eth0", func(h *link.Handle, l link.Link) error { return h.SetMTU(l.Index, 1300) }),
			"mtu of eth0: want 1400, got 1300",
		},
		{
			"mtu of lo", on("", "lo", func(h *link.Handle, l link.Link) error { return h.SetMTU(l.Index, 1300) }),
			"mtu of lo: want 1400, got 1300",
		},
		{
			"mac", on("", "v0", func(h *link.Handle, l link.Link) error { return h.SetMAC(l.Index, []byte{2, 0, 0, 0, 0, 9}) }),
			"mac of v0: want 02:00:00:00:00:02, got 02:00:00:00:00:09",
		},
		{
			"bridge down", on("", "br0", func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }),
			"br0: want up, got down",
		},
		{
			"peer down", on("c", "eth0", func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }),
			"eth0: want up, got down",
		},
		{
			"lo of a container down", on("c", "lo", func(h *link.Handle, l link.Link) error { return h.SetUp(l.Index, false) }),
			"lo: want up, got down",
		},
		{
			"bridge gone", on("", "br0", func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }),
			"link br0: want present, got absent",
		},
		{
			"port no more", on("", "br0", func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }),
			"master of v0: want br0, got none",
		},
		{
			"veth gone", on("c", "eth0", func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }),
			"link v0: want present, got absent; link eth0 in c: want present, got absent",
		},
		{"route gone", on("c", "eth0", func(h *link.Handle, _ link.Link) error {
			return h.DeleteRoute(link.Route{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.1.0.1")})
		}), "route to 0.0.0.0/0: want via 10.1.0.1, got absent"},
		{"another route", on("c", "eth0", func(h *link.Handle, _ link.Link) error {
			r := link.Route{To: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr("fd00:10:1::1")}
			err := h.DeleteRoute(r)
			r.Via = netip.MustParseAddr("fd00:10:1::2")
			return errors.Join(err, h.AddRoute(r))
		}), "route to ::/0: want via fd00:10:1::1, got via fd00:10:1::2 through eth0"},
		{"route to a link gone", on("c", "eth0", func(h *link.Handle, l link.Link) error {
			return h.DeleteRoute(link.Route{To: netip.MustParsePrefix("198.51.100.0/24"), Link: l.Index})
		}), "route to 198.51.100.0/24: want through eth0, got absent"},
		{"sysctl", set("", "net.ipv4.ip_forward", "0"), "net.ipv4.ip_forward: want 1, got 0"},
		{
			"sysctl of a container", set("c", "net.ipv4.tcp_slow_start_after_idle", "1"),
			"net.ipv4.tcp_slow_start_after_idle: want 0, got 1",
		},
		{
			"sysctl gone", on("", "v0", func(h *link.Handle, l link.Link) error { return h.Delete(l.Index) }),
			"net.ipv4.conf.v0.accept_local: want 0, got absent",
		},
		{"namespace gone", func() error { return netns.Unbind(filepath.Join(m.Dir, "c")) }, "want present, got absent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			steptest.Noticed(t, k, lab(), c.tamper, c.want)
		})
	}
}

func TestApplyErrors(t *testing.T) {
	k, m := kernel(t, nil)
	before := links(t, k, "")
	for _, c := range []struct {
		name string
		step host.Step
		want string
	}{
		{"namespace exists", host.Namespace{Name: "c"}, `file exists`},
		{"namespace with a slash", host.Namespace{Name: "a/b"}, `invalid namespace name "a/b"`},
		{"namespace of a file", host.Namespace{Name: "@a"}, `invalid namespace name "@a"`},
		{"no such namespace", host.Bridge{NS: "d", Name: "b"}, `open namespace "d"`},
		{"no such file", host.Bridge{NS: "@d", Name: "b"}, `no such file was passed to this host (passed: none)`},
		{"bridge exists", host.Bridge{Name: "br0"}, `make bridge "br0": exists already`},
		{"long name", host.Bridge{Name: "abcdefghijklmnop"}, `invalid link name "abcdefghijklmnop" (valid: 1 to 15 bytes)`},
		{"no MAC", host.Bridge{Name: "b", MAC: "02:00"}, `invalid MAC address "02:00"`},
		{
			"no address",
			host.Bridge{Name: "b", Addresses: []string{"10.0.0.1"}},
			`invalid address "10.0.0.1"`,
		},
		{"small MTU", host.Bridge{Name: "b", MTU: 1, Addresses: []string{"10.0.0.1/8"}}, `set MTU of link`},
		{"no master", host.Veth{Name: "v", Master: "none", PeerNS: "c", PeerName: "e"}, `read link "none": not found`},
		{"master is no bridge", host.Veth{
			Name: "v", Master: "lo", PeerNS: "c", PeerName: "e",
		}, `make veth "v" a port of link 1`},
		{"peer exists", host.Veth{Name: "v", PeerNS: "c", PeerName: "eth0"}, `make veth "v": exists already`},
		{"address twice", host.Veth{
			Name: "v", PeerNS: "c", PeerName: "e", PeerAddresses: []string{"10.3.0.1/16", "10.3.0.1/16"},
		}, `exists already`},
		{"no such link", host.Link{Name: "none", Up: true}, `read link "none": not found`},
		{
			"address that cannot be",
			host.Link{Name: "lo", MTU: 1300, Addresses: []string{"10.8.0.1/32", "ff02::1/64"}},
			`add address "ff02::1/64"`,
		},
		{"no route", host.Route{To: "10.0.0.0", Via: "10.1.0.1"}, `route to "10.0.0.0"`},
		{"route to nowhere", host.Route{To: "10.0.0.0/8"}, `neither a gateway (via) nor a link (dev)`},
		{"unreachable gateway", host.Route{To: "10.0.0.0/8", Via: "192.0.2.1"}, `network is unreachable`},
		{"no such sysctl", host.Sysctl{Key: "net.none", Value: "1"}, `read sysctl "net.none"`},
		{"sysctl outside", host.Sysctl{Key: "net.//.//.etc.passwd", Value: "1"}, `invalid sysctl name`},
		{
			"value that cannot be",
			host.Sysctl{Key: "net.ipv4.ip_forward", Value: "yes"},
			`write "yes" to sysctl "net.ipv4.ip_forward"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lab()
			p.Steps = append(p.Steps[:4:4], c.step)
			var s host.Stack
			err := s.Apply(t.Context(), k, p)
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "apply step 5 of 5 ("+c.step.String()+"): ") {
				t.Errorf("Apply = %v\nwant %q of step 5", err, c.want)
			}
			if s.Len() > 0 {
				t.Errorf("%d steps are on the stack", s.Len())
			}
			if after := links(t, k, ""); after != before {
				t.Errorf("there is %s, before there was %s", after, before)
			}
			if entries, err := os.ReadDir(m.Dir); err != nil || len(entries) > 0 {
				t.Errorf("%s holds %v (%v), want nothing", m.Dir, entries, err)
			}
		})
	}
}

func TestApplyCancelled(t *testing.T) {
	k, _ := kernel(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var s host.Stack
	if err := s.Apply(ctx, k, lab()); !errors.Is(err, context.Canceled) || s.Len() > 0 {
		t.Errorf("Apply with a cancelled context = %v and %d steps", err, s.Len())
	}
}

// TestInheritedNamespace makes one end of a veth in a namespace that was passed as a file, as for the underlay.
func TestInheritedNamespace(t *testing.T) {
	other := testnet.New(t)
	k, _ := kernel(t, map[string]*os.File{"netns:host1": other.NS})
	p := host.Plan{Steps: []host.Step{
		host.Veth{Name: "to1", MTU: 1400, PeerNS: "@host1", PeerName: "up0", PeerAddresses: []string{"198.18.0.1/16"}},
	}}
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, p))
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	if got := links(t, k, "@host1"); !strings.Contains(got, "up0 veth") || !strings.Contains(got, "198.18.0.1/16") {
		t.Errorf("in the other namespace there is %s, want up0", got)
	}
	if err := s.Undo(context.Background(), k); err != nil {
		t.Error(err)
	}
	if got := links(t, k, "@host1"); strings.Contains(got, "up0") {
		t.Errorf("after Undo, in the other namespace there is %s", got)
	}
}

// TestReplacedLink applies steps that name links which were replaced after a step had made them.
func TestReplacedLink(t *testing.T) {
	k, _ := kernel(t, nil)
	ctx := t.Context()
	var s host.Stack
	testnet.Skip(t, s.Apply(ctx, k, host.Plan{Steps: lab().Steps[:3]}))
	h, err := k.Links("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"v0", "br0"} {
		l, err := h.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Delete(l.Index); err != nil {
			t.Fatal(err)
		}
	}
	ns, err := k.Open("c")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if _, err := h.AddBridge(link.Bridge{Name: "br0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddVeth(link.Veth{Name: "v0", PeerName: "eth0", PeerNS: ns}); err != nil {
		t.Fatal(err)
	}
	inside, err := k.Links("c")
	if err != nil {
		t.Fatal(err)
	}
	eth0, err := inside.ByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := inside.SetUp(eth0.Index, true); err != nil {
		t.Fatal(err)
	}
	var more host.Stack
	if err := more.Apply(ctx, k, host.Plan{Steps: []host.Step{
		host.Veth{Name: "v1", Master: "br0", PeerNS: "c", PeerName: "eth1"},
		host.Route{NS: "c", To: "198.51.100.0/24", Dev: "eth0"},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(more.Verify(ctx, k), more.Undo(context.Background(), k),
		s.Undo(context.Background(), k)); err != nil {
		t.Error(err)
	}
}

// TestUndoWithSocket ends a container whose namespace is still held by a socket: its link must be removed nevertheless.
func TestUndoWithSocket(t *testing.T) {
	k, _ := kernel(t, nil)
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, lab()))
	f, err := k.Open("c")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := time.Now()
	if err := s.Undo(context.Background(), k); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 10*time.Second { // the socket is held until the end of the test
		t.Errorf("Undo took %v", took)
	}
	if got := links(t, k, ""); strings.Contains(got, "v0") {
		t.Errorf("after Undo there is %s", got)
	}
}

func TestKernelClosed(t *testing.T) {
	k, _ := kernel(t, nil)
	var s host.Stack
	testnet.Skip(t, s.Apply(t.Context(), k, lab()))
	f, err := k.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2 {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Undo(context.Background(), k); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Undo on a closed kernel = %v, want %v", err, os.ErrClosed)
	}
	if err := s.Apply(t.Context(), k, lab()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Apply on a closed kernel = %v, want %v", err, os.ErrClosed)
	}
}
