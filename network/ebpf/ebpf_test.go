package ebpf_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
)

func TestConformance(t *testing.T) {
	networktest.Conformance(t, ebpf.Network{}, nil, part.Params{"attach": "tc", "txqueuelen": "100"}, with("xdp"),
		with("netkit"))
}

func with(attach string) part.Params { return part.Params{"attach": attach} }

func TestPlan(t *testing.T) {
	for _, attach := range []string{"auto", "tc", "xdp", "netkit"} {
		t.Run(attach, func(t *testing.T) {
			lab := networktest.Lab(2, 1)
			lab.Params = with(attach)
			plans, ends, err := network.Join(ebpf.Network{}, lab)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "plan-"+attach, plans[0].String())
			wantEnds := [][]network.Endpoint{
				{end("host1", "src0", "10.1.1.0", "fd00:10:1::1:0")}, {end("host2", "snk0", "10.2.1.0", "fd00:10:2::1:0")},
			}
			if diff := cmp.Diff(wantEnds, ends, cmpopts.EquateComparable(network.Endpoint{})); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
		})
	}
}

func end(host, name, v4, v6 string) network.Endpoint {
	return network.Endpoint{
		Namespace: name, MAC: network.MAC(networktest.Lab(1, 1).Seed, host, name, "eth0"),
		IPv4: netip.MustParseAddr(v4), IPv6: netip.MustParseAddr(v6), Link: "v" + name, Inner: "eth0",
	}
}

func TestExclude(t *testing.T) {
	for attach, want := range map[string][2]bool{"auto": {}, "tcx": {}, "tc": {}, "xdp": {false, true}, "netkit": {}} {
		for i, hosts := range []int{1, 2} {
			if reason := (ebpf.Network{}).Exclude(hosts, with(attach)); (reason != "") != want[i] {
				t.Errorf("attach=%s, %d hosts: left out because %q", attach, hosts, reason)
			}
		}
	}
}

// Many containers are hooked by tc, where nobody waits for the kernel, unless something else was asked for.
func TestMany(t *testing.T) {
	for _, c := range []struct {
		attach string
		pairs  int
		want   string
	}{{"auto", 100, "auto"}, {"auto", 101, "tc"}, {"tcx", 101, "tcx"}} {
		lab := networktest.Lab(1, c.pairs)
		lab.Params = with(c.attach)
		plans, _, err := ebpf.Network{}.Build(lab)
		if err != nil {
			t.Fatal(err)
		}
		last := plans[0].Steps[len(plans[0].Steps)-1]
		if f, ok := last.(ebpf.Forwarding); !ok || f.Attach != c.want {
			t.Errorf("attach=%s, %d pairs: the last step is %q, want it to attach by %s", c.attach, c.pairs, last, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	long := networktest.Lab(1, 1)
	long.Hosts[0].Containers[0].Name = "a-long-name-of-c"
	xdp := networktest.Lab(1, 1)
	xdp.Params = part.Params{"attach": "xdp", "checksum": "on"}
	for _, c := range []struct {
		lab  network.Lab
		want string
	}{
		{long, `the name "a-long-name-of-c" of a container is too long (1 to 14 bytes)`},
		{xdp, "attach=xdp needs checksum=off and gro=on"},
	} {
		if _, _, err := (ebpf.Network{}).Build(c.lab); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Build = %v, want %q", err, c.want)
		}
	}
}

// What is missing is said before anything is built. Where nothing is, a lab stands.
func TestCheck(t *testing.T) {
	testnet.Root(t)
	for _, attach := range []string{"auto", "tcx", "tc", "xdp", "netkit"} {
		t.Run(attach, func(t *testing.T) {
			checked := ebpf.Network{}.Check(with(attach))
			b := bed(t, attach, networktest.Lab(1, 1))
			built := b.Apply(t)
			if (checked == nil) != (built == nil) {
				t.Errorf("Check says %v, and building %v", checked, built)
			}
			if checked != nil && (!errors.Is(checked, errors.ErrUnsupported) || !strings.Contains(checked.Error(), "hint: ")) {
				t.Errorf("Check says %v, want what is not supported and what would help", checked)
			}
			if err := b.Undo(); err != nil {
				t.Error(err)
			}
		})
	}
}

func bed(t *testing.T, attach string, lab network.Lab) *networktest.Bed {
	t.Helper()
	lab.Params = with(attach)
	b, err := networktest.MakeBed(t, ebpf.Network{}, lab)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func stand(t *testing.T, attach string, lab network.Lab) *networktest.Bed {
	t.Helper()
	b := bed(t, attach, lab)
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Apply(t); err != nil {
		testnet.Skip(t, err)
	}
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	return b
}

// It is the program that forwards, and not the stack behind it: hosts that do not forward let everything through all
// the same. As a router it takes one from the time to live, at each host, and what has none left it does not send on.
func TestTheProgramForwards(t *testing.T) {
	everywhere(t, func(t *testing.T, b *networktest.Bed, source, sink place) {
		for _, m := range b.Hosts {
			if err := m.Do(func() error {
				return errors.Join(sysctl.Write("net.ipv4.ip_forward", "0"), sysctl.Write("net.ipv6.conf.all.forwarding", "0"))
			}); err != nil {
				t.Fatal(err)
			}
		}
		hosts := len(b.Hosts)
		for _, family := range []string{"ipv4", "ipv6"} {
			for _, hops := range []int{64, hosts + 1} {
				if got, err := passes(source, sink, family, hops, 2*time.Second); err != nil || got != hops-hosts {
					t.Errorf("%s: sent with %d hops to live, received with %d (%v), want %d", family, hops, got, err, hops-hosts)
				}
			}
			if got, err := passes(source, sink, family, hosts, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: sent with %d hops to live, received with %d (%v), want it dropped", family, hosts, got, err)
			}
		}
	})
}

// What a container sends from a link-local address is for its link alone (RFC 4291, section 2.5.6).
func TestNeighboursAreNotForwarded(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *networktest.Bed, source, sink place) {
		h, err := source.kernel.Links(source.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		l, err := h.ByName(source.Inner)
		if err != nil {
			t.Fatal(err)
		}
		local := netip.MustParseAddr("fe80::1234")
		if err := h.AddAddress(l.Index, netip.PrefixFrom(local, 64)); err != nil {
			t.Fatal(err)
		}
		source.IPv6 = local.WithZone(strconv.Itoa(l.Index))
		if hops, err := passes(source, sink, "ipv6", 255, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a packet from a link-local address arrives with %d hops (%v), want it dropped", hops, err)
		}
	})
}

// everywhere calls f in labs with every program, on one host and on two, with a source and the last sink.
func everywhere(t *testing.T, f func(t *testing.T, b *networktest.Bed, source, sink place)) {
	t.Helper()
	for _, attach := range []string{"tcx", "tc", "xdp", "netkit"} {
		for _, hosts := range []int{1, 2} {
			if (ebpf.Network{}).Exclude(hosts, with(attach)) != "" {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d hosts", attach, hosts), func(t *testing.T) {
				b := stand(t, attach, networktest.Lab(hosts, 1))
				last := b.Ends[hosts-1]
				f(t, b, place{b.Hosts[0].Kernel, b.Ends[0][0]}, place{b.Hosts[hosts-1].Kernel, last[len(last)-1]})
			})
		}
	}
}

// place is a container of a host.
type place struct {
	kernel *host.Kernel
	network.Endpoint
}

func (p place) listen(family string) (c *net.UDPConn, err error) {
	err = p.kernel.Do(p.Namespace, func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.Bind(family), 20000)))
		return err
	})
	return c, err
}

// passes sends a datagram with that hop limit, and returns the hop limit with which it arrives.
func passes(from, to place, family string, hops int, within time.Duration) (int, error) {
	out, err := from.listen(family)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	in, err := to.listen(family)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if err := in.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	send := func() error {
		_, err := out.WriteToUDPAddrPort([]byte("hops"), netip.AddrPortFrom(to.Bind(family), 20000))
		return err
	}
	buf := make([]byte, 16)
	if family == "ipv6" {
		p := ipv6.NewPacketConn(in)
		if err := errors.Join(ipv6.NewPacketConn(out).SetHopLimit(hops), p.SetControlMessage(ipv6.FlagHopLimit, true),
			send()); err != nil {
			return 0, err
		}
		_, cm, _, err := p.ReadFrom(buf)
		if err != nil {
			return 0, err
		}
		return cm.HopLimit, nil
	}
	p := ipv4.NewPacketConn(in)
	if err := errors.Join(ipv4.NewPacketConn(out).SetTTL(hops), p.SetControlMessage(ipv4.FlagTTL, true),
		send()); err != nil {
		return 0, err
	}
	_, cm, _, err := p.ReadFrom(buf)
	if err != nil {
		return 0, err
	}
	return cm.TTL, nil
}
