package geneve_test

import (
	"errors"
	"fmt"
	"net/netip"
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
	"github.com/nettoll/nettoll/network/bridge"
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
			for _, command := range []string{"tnl/neigh/flush", "revalidator/purge"} {
				if _, err := ovs.Control(i.DaemonControl(), command); err != nil {
					t.Fatal(err)
				}
			}
			if text, err := ovs.Control(i.DaemonControl(), "tnl/neigh/show"); err != nil || strings.Contains(text, "outer") {
				t.Fatalf("the neighbours are %q, %v; want none", text, err)
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
