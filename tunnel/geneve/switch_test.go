package geneve_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/ovs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
)

// switched applies a lab of two hosts that Open vSwitch joins, and returns the instance of the first one.
func switched(t *testing.T, given map[string]string) (*networktest.Bed, ovs.Instance, map[string]string) {
	t.Helper()
	given["impl"] = "ovs"
	lab, err := compose(2, given)
	if err != nil {
		t.Fatal(err)
	}
	b, err := networktest.MakeBed(t, bridge.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	before, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Errorf("undo: %v", err)
		}
	})
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	dir, err := b.Hosts[0].Kernel.RunDir("geneve-ovs")
	if err != nil {
		t.Fatal(err)
	}
	return b, ovs.Instance{Dir: dir}, before
}

// verify is what the first host says of itself.
func verify(t *testing.T, b *networktest.Bed) error {
	m := b.Hosts[0]
	return m.Stack.Verify(t.Context(), m.Kernel)
}

// TestTamperingWithSwitch changes Open vSwitch and what is around it, and wants Verify to say what it is, and to be
// content when it is as it was.
func TestTamperingWithSwitch(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	testnet.Program(t, "ovs-vsctl", ovs.Package)
	b, i, before := switched(t, map[string]string{})
	configure := func(args ...string) func() error {
		return func() error {
			out, err := exec.Command("ovs-vsctl", append([]string{"--db=unix:" + i.Database(), "--timeout=20"}, args...)...).
				CombinedOutput()
			if err != nil {
				return fmt.Errorf("ovs-vsctl %q: %w: %s", args, err, out)
			}
			return nil
		}
	}
	flow := func(change func(f ovs.Flow) ovs.FlowMod, f ovs.Flow) func() error {
		return func() error {
			c, err := ovs.Connect(i.Bridge("inner"))
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Modify(change(f))
		}
	}
	add := func(f ovs.Flow) ovs.FlowMod { return ovs.FlowMod{Add: slices.Values([]ovs.Flow{f})} }
	remove := func(f ovs.Flow) ovs.FlowMod { return ovs.FlowMod{Delete: slices.Values([]ovs.Flow{f})} }
	back := ovs.Flow{Cookie: ovs.CookieTunnel, Priority: 1, Match: ovs.Match{InPort: 2}, Output: 1}
	flood := ovs.Flow{Output: ovs.Normal}
	for _, c := range []struct {
		what     string
		do, undo func() error
		want     string
	}{
		{
			"another remote address", configure("set", "interface", "to1", "options:remote_ip=198.18.0.77"),
			configure("set", "interface", "to1", "options:remote_ip=198.18.0.2"), "remote_ip=198.18.0.77",
		},
		{
			"another identifier", configure("set", "interface", "to1", "options:key=101"),
			configure("set", "interface", "to1", "options:key=100"), "options of port to1: want dst_port=6081, key=100",
		},
		{
			"a port that is gone", configure("del-port", "to1"),
			configure("add-port", "inner", "to1", "--", "set", "interface", "to1", "type=geneve", "ofport_request=2",
				"options:key=100", "options:dst_port=6081", "options:local_ip=198.18.0.1", "options:remote_ip=198.18.0.2"),
			"port to1: want present, got absent",
		},
		{
			"a port for a stranger", configure("add-port", "inner", "stranger", "--", "set", "interface", "stranger", "type=geneve",
				"options:remote_ip=198.18.0.77"),
			configure("del-port", "stranger"), "ports that are too many: want , got stranger",
		},
		{
			"a mirror", configure("--", "--id=@p", "get", "port", "to1", "--", "--id=@m", "create", "mirror", "name=leak",
				"select-all=true", "output-port=@p", "--", "set", "bridge", "inner", "mirrors=@m"),
			configure("clear", "bridge", "inner", "mirrors"), `copies of packets: want none, got Mirror "leak"`,
		},
		{"a flow that is gone", flow(remove, back), flow(add, back), "in_port=2: want present, got absent"},
		{"flooding", flow(add, flood), flow(remove, flood), "bridge inner: flows that are too many: want 0, got 1"},
	} {
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		err := verify(t, b)
		if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Verify = %v, want a drift with %q", c.what, err, c.want)
		}
		if err := c.undo(); err != nil {
			t.Fatalf("%s, undone: %v", c.what, err)
		}
		if err := verify(t, b); err != nil {
			t.Fatalf("%s, undone: %v", c.what, err)
		}
	}
	if err := b.Exchange("ipv4", 1300); err != nil {
		t.Errorf("when all is as it was: %v", err)
	}
	detached(t, b)
	moved(t, b)
	killed(t, b, before)
}

// detached takes the program away that takes packets from the link below.
func detached(t *testing.T, b *networktest.Bed) {
	if err := b.Hosts[0].Do(func() error {
		links, err := bpf.Open()
		if err != nil {
			return err
		}
		defer links.Close()
		ids, err := links.Attached(bpf.TCXIngress, links.Index("up0"))
		if err != nil {
			return err
		}
		p, err := bpf.Find(ids, "nettoll_in")
		if err != nil || p == nil {
			return fmt.Errorf("no program nettoll_in: %w", err)
		}
		defer p.Close()
		m := p.Maps["peers"]
		key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
		if it := m.Iterate(); !it.Next(&key, &value) {
			return fmt.Errorf("no peer: %w", it.Err())
		}
		return m.Delete(key)
	}); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, b); err == nil || !strings.Contains(err.Error(), "of map peers: want present, got absent") {
		t.Errorf("no peer: Verify = %v", err)
	}
}

// moved takes the source address away from Open vSwitch.
func moved(t *testing.T, b *networktest.Bed) {
	h, err := b.Hosts[0].Kernel.Links("geneve-ovs")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.ByName("outer")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.DeleteAddress(l.Index, netip.MustParsePrefix("198.18.0.1/8")); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, b); err == nil || !strings.Contains(err.Error(), "198.18.0.1/8") {
		t.Errorf("no address: Verify = %v", err)
	}
}

// killed ends the daemon, and wants everything to be gone after the undo all the same.
func killed(t *testing.T, b *networktest.Bed, before map[string]string) {
	k := b.Hosts[0].Kernel
	const daemon = "ovs-vswitchd-tunnel"
	state := func() (s host.ProgramState) {
		for _, p := range k.Programs() {
			if p.Name == daemon {
				s = p
			}
		}
		return s
	}
	if err := syscall.Kill(state().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); state().Died == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was killed, and is not told to have died")
		}
	}
	err := verify(t, b)
	if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), daemon+": want running, got ") ||
		!strings.Contains(err.Error(), "its last lines") {
		t.Errorf("Verify = %v, want a drift with the last lines of %s", err, daemon)
	}
	if err := b.Undo(); err != nil {
		t.Fatal(err)
	}
	after, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("undone, it is not as it was (-before +after):\n%s", diff)
	}
}

// TestForgottenNeighbour wants Open vSwitch to find the gate again when it has forgotten its MAC address, as it does
// when nothing was sent for 15 minutes.
func TestForgottenNeighbour(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	for _, outer := range []string{"ipv4", "ipv6"} {
		t.Run(outer, func(t *testing.T) {
			b, i, _ := switched(t, map[string]string{"outer": outer})
			if err := b.Exchange("ipv4", 28); err != nil {
				t.Fatal(err)
			}
			for try := 1; ; try++ { // a packet that was under way may bring it back
				for _, command := range []string{"tnl/neigh/flush", "revalidator/purge"} {
					if _, err := ovs.Control(i.DaemonControl(), command); err != nil {
						t.Fatal(err)
					}
				}
				text, err := ovs.Control(i.DaemonControl(), "tnl/neigh/show")
				if err == nil && !strings.Contains(text, "outer") {
					break
				}
				if err != nil || try == 20 {
					t.Fatalf("the neighbours are %q, %v; want none", text, err)
				}
			}
			for try := 1; ; try++ { // the packet that asks is lost
				err := b.Exchange("ipv4", 28)
				if err == nil {
					break
				}
				if try == 5 {
					t.Fatalf("it does not find the gate again: %v", err)
				}
			}
		})
	}
}

// TestStrangers repeats what a host has sent, and sends it as another host would. Open vSwitch takes only the former.
func TestStrangers(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	b, _, _ := switched(t, map[string]string{})
	tap, err := carriertest.Listen(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	into, err := carriertest.Listen(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	from, to := b.Ends[0][0], b.Ends[1][0]
	var in, out *net.UDPConn
	for _, s := range []struct {
		m    *networktest.Machine
		e    network.Endpoint
		conn **net.UDPConn
	}{{b.Hosts[0], from, &out}, {b.Hosts[1], to, &in}} {
		if err := s.m.Kernel.Do(s.e.Namespace, func() (err error) {
			*s.conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: s.e.IPv4.AsSlice()})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer (*s.conn).Close()
	}
	payload := []byte("a payload that is in one datagram")
	// received waits longer for what should arrive than for what should not.
	received := func(want bool) bool {
		t.Helper()
		within := 500 * time.Millisecond
		if want {
			within = 10 * time.Second
		}
		if err := in.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100)
		n, err := in.Read(got)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil && bytes.Equal(got[:n], payload)
	}
	if _, err := out.WriteTo(payload, in.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if !received(true) {
		t.Fatal("a datagram does not arrive")
	}
	frames, err := tap.Passed()
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(frames, func(f []byte) bool { return bytes.Contains(f, payload) })
	if n < 0 {
		t.Fatalf("it is in none of %d frames", len(frames))
	}
	// Where headers stand: IEEE 802.3 section 3.1.1, RFC 791 section 3.1, RFC 768, RFC 8926 section 3.4.
	const identifier, source, destination, id = 18, 26, 30, 46
	for _, c := range []struct {
		what   string
		change func(f []byte)
		want   bool
	}{
		{"the same frame once more", func([]byte) {}, true},
		// The sum of the header stays the same.
		{"from a stranger", func(f []byte) { f[source+3], f[identifier+1] = f[source+3]+64, f[identifier+1]-64 }, false},
		{"with another identifier", func(f []byte) { f[id+2]++ }, false},
		{"for another", func(f []byte) { f[destination+3], f[identifier+1] = f[destination+3]+64, f[identifier+1]-64 }, false},
		{"the same frame at last", func([]byte) {}, true},
	} {
		f := bytes.Clone(frames[n])
		f[identifier+1] = 128 // of a packet that may not be cut it says nothing (RFC 6864)
		binary.BigEndian.PutUint16(f[24:], 0)
		binary.BigEndian.PutUint16(f[24:], sum(f[14:34]))
		c.change(f)
		if _, err := into.Write(f); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got := received(c.want); got != c.want {
			t.Errorf("%s: delivered: %t, want %t", c.what, got, c.want)
		}
	}
}

// sum is that of RFC 1071.
func sum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}
