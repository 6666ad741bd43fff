package bridge_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, bridge.Network{}, nil,
		map[string]string{
			"txqueuelen": "1000", "rps": "all", "rfs": "256", "gro": "on", "checksum": "off", "hairpin": "on",
			"bridge-nf": "on",
		})
}

// Packets that pass another bridge are counted, but by ports of that one.
func TestAnotherBridge(t *testing.T) {
	b, err := networktest.MakeBed(t, bridge.Network{}, networktest.Lab(1, 1))
	testnet.Skip(t, err)
	defer func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	}()
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	if err := b.Hosts[0].Do(func() error {
		around := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}
		err := errors.Join(netlink.LinkAdd(around), netlink.LinkSetUp(around))
		for _, name := range []string{"vsrc0", "vsnk0"} {
			port, missing := netlink.LinkByName(name)
			if missing != nil {
				return missing
			}
			err = errors.Join(err, netlink.LinkSetMaster(port, around))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	next, counted, err := b.Carry(t, bridge.Network{})
	if err != nil || next != nil {
		t.Fatalf("by another bridge: %v, %v", err, next)
	}
	if counted == nil || !strings.Contains(counted.Error(),
		"host1 does not count packets received by vsrc0, port of br0") {
		t.Errorf("counted: %v, want that no port of br0 has counted", counted)
	}
}

// A bridge that forgets at once who is where sends every packet to everybody: those who must have it do, and others
// count packets that nobody has sent to them.
func TestFlooding(t *testing.T) {
	b, err := networktest.MakeBed(t, bridge.Network{}, networktest.Lab(1, 2))
	testnet.Skip(t, err)
	defer func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	}()
	testnet.Skip(t, b.Apply(t))
	paths, err := b.Paths(bridge.Network{})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 16
	// counted says which counters counted too much after each trip had that number of datagrams: more than was sent on
	// purpose, and more than containers sent at all.
	counted := func() (excess, beyond error) {
		began := time.Now()
		before, err := b.Trace(t, paths.Questions(false))
		if err != nil {
			t.Fatal(err)
		}
		for range rounds {
			for _, family := range []string{"ipv4", "ipv6"} {
				if err := b.Exchange(family, 100); err != nil {
					t.Fatal(err)
				}
			}
		}
		after, err := b.Trace(t, paths.Questions(false))
		if err != nil {
			t.Fatal(err)
		}
		sent := make([]int64, paths.Len())
		for i := range sent {
			sent[i] = rounds * networktest.Exchanged
		}
		missing, excess := paths.Counted(before, after, sent, sent)
		if missing != nil {
			t.Error(missing)
		}
		return excess, paths.Beyond(before, after, time.Since(began))
	}
	if err := errors.Join(counted()); err != nil {
		t.Errorf("a bridge that learns: %v", err)
	}
	if err := b.Hosts[0].Do(func() error {
		br, err := netlink.LinkByName(network.Bridge)
		if err != nil {
			return err
		}
		never := uint32(0)
		if err := netlink.LinkModify(&netlink.Bridge{
			LinkAttrs: netlink.LinkAttrs{Name: br.Attrs().Name}, AgeingTime: &never,
		}); err != nil {
			return err
		}
		// It learns nothing more, but forwards by what it has learned until its worker has thrown that away
		// (br_fdb_update, br_fdb_cleanup, net/bridge/br_fdb.c).
		entries, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, unix.AF_BRIDGE) })
		if err != nil {
			return err
		}
		for _, n := range entries {
			if n.MasterIndex != br.Attrs().Index || n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
				continue
			}
			if err := netlink.NeighDel(&n); err != nil && !errors.Is(err, unix.ENOENT) { // the worker was faster
				return fmt.Errorf("forget %v: %w", n, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	excess, beyond := counted()
	if excess == nil || !strings.Contains(excess.Error(), "host1 counted") ||
		!strings.Contains(excess.Error(), "but no more than 128 were sent") {
		t.Errorf("a bridge that floods: %v", excess)
	}
	if beyond == nil || !strings.Contains(beyond.Error(), "sent by vsnk0, port of br0, but containers sent no more than") {
		t.Errorf("a bridge that floods: %v", beyond)
	}
}

func TestPlan(t *testing.T) {
	lab := networktest.Lab(2, 1)
	plans, ends, err := network.Join(bridge.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	mac := func(name ...string) string { return network.MAC(lab.Seed, name...) }
	golden.Compare(t, "plan", plans[0].String())
	wantEnds := [][]network.Endpoint{
		{{
			Namespace: "src0", Link: "vsrc0", Inner: "eth0", MAC: mac("host1", "src0", "eth0"),
			IPv4: netip.MustParseAddr("10.1.1.0"), IPv6: netip.MustParseAddr("fd00:10:1::1:0"),
		}},
		{{
			Namespace: "snk0", Link: "vsnk0", Inner: "eth0", MAC: mac("host2", "snk0", "eth0"),
			IPv4: netip.MustParseAddr("10.2.1.0"), IPv6: netip.MustParseAddr("fd00:10:2::1:0"),
		}},
	}
	if diff := cmp.Diff(wantEnds, ends, cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

// On one host there is no way past the bridge: the host forwards nothing, whatever the machine does.
func TestForwardsNothing(t *testing.T) {
	plans, _, err := bridge.Network{}.Build(networktest.Lab(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sysctl net.ipv4.ip_forward=0\n", "sysctl net.ipv6.conf.all.forwarding=0\n"} {
		if text := plans[0].String(); !strings.Contains(text, want) {
			t.Errorf("plan of the only host without %q:\n%s", want, text)
		}
	}
}

func TestLimits(t *testing.T) {
	long, many := networktest.Lab(1, 1), networktest.Lab(1, 512)
	long.Hosts[0].Containers[0].Name = "a-long-name-of-c"
	for _, c := range []struct {
		name string
		lab  network.Lab
		want string
	}{
		{"name of a container", long, `the name "a-long-name-of-c" of a container is too long (1 to 14 bytes)`},
		{"ports", many, `host 1: 1024 containers, but a bridge has at most 1023 ports`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := (bridge.Network{}).Build(c.lab); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q", err, c.want)
			}
		})
	}
}
