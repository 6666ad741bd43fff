package host_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// pause is longer than the kernel takes to free 40 namespaces after the last link is gone.
const pause = 150 * time.Millisecond

// containers is the number of containers that the benchmark makes at once.
const containers = 40

// BenchmarkContainers makes 40 containers in turns by a plan and by the smallest loop of netlink requests that makes
// the same links. It prints the ratio of the times (minimum and median over the rounds); the goal is below 1.3. It also
// prints the time to verify the containers, and the time to undo them until the last link is gone (goal: 0.5 s).
func BenchmarkContainers(b *testing.B) {
	k, m := kernel(b, nil)
	var plan, minimal, verify, undo []time.Duration
	number := 0
	round := func() {
		// Each goes first in every other round, and only after the kernel has freed the previous namespaces.
		number++
		if number%2 == 0 {
			time.Sleep(pause)
			minimal = append(minimal, minimally(b, m))
		} else {
			defer func() {
				time.Sleep(pause)
				minimal = append(minimal, minimally(b, m))
			}()
		}
		time.Sleep(pause)
		var s host.Stack
		start := time.Now()
		testnet.Skip(b, s.Apply(b.Context(), k, many(containers)))
		plan = append(plan, time.Since(start))
		start = time.Now()
		if err := s.Verify(b.Context(), k); err != nil {
			b.Fatal(err)
		}
		verify = append(verify, time.Since(start))
		start = time.Now()
		if err := s.Undo(context.Background(), k); err != nil {
			b.Fatal(err)
		}
		undo = append(undo, time.Since(start))
	}
	round() // once to warm up
	plan, minimal, verify, undo = nil, nil, nil, nil
	for b.Loop() {
		round()
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	b.ReportMetric(ms(median(plan)), "plan-ms")
	b.ReportMetric(ms(median(minimal)), "minimal-ms")
	b.ReportMetric(median(plan).Seconds()/median(minimal).Seconds(), "ratio")
	b.ReportMetric(slices.Min(plan).Seconds()/slices.Min(minimal).Seconds(), "ratio-of-minima")
	b.ReportMetric(ms(median(verify)), "verify-ms")
	b.ReportMetric(ms(median(undo)), "undo-ms")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// many returns a plan for a bridge with n containers.
func many(n int) host.Plan {
	p := host.Plan{Steps: []host.Step{host.Bridge{Name: "br0", Addresses: []string{"10.1.0.1/16", "fd00:10:1::1/64"}}}}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		p.Steps = append(p.Steps,
			host.Namespace{Name: name},
			host.Veth{
				Name: "v" + name, MTU: 1500, MAC: fmt.Sprintf("02:00:00:00:01:%02x", i), Master: "br0",
				PeerNS: name, PeerName: "eth0", PeerMAC: fmt.Sprintf("02:00:00:00:02:%02x", i),
				PeerAddresses: []string{fmt.Sprintf("10.1.1.%d/16", i), fmt.Sprintf("fd00:10:1::1:%x/64", i)},
			},
			host.Route{NS: name, To: "0.0.0.0/0", Via: "10.1.0.1"},
			host.Route{NS: name, To: "::/0", Via: "fd00:10:1::1"},
		)
	}
	return p
}

// minimally makes the same links, addresses and routes as many, with as few requests as possible, and returns the time
// that took. It removes everything before it returns.
func minimally(b *testing.B, m *testnet.Machine) (took time.Duration) {
	b.Helper()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var spaces [containers]int
	must(m.Do(func() error {
		start := time.Now()
		home, err := netns.Current()
		must(err)
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		must(err)
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "br0"
		br := &netlink.Bridge{LinkAttrs: attrs}
		must(h.LinkAdd(br))
		must(h.LinkSetUp(br))
		must(h.AddrAdd(br, address(4, 10, 1, 0, 1)))
		must(h.AddrAdd(br, address(6, 0, 0, 0, 1)))
		for i := range containers {
			must(unix.Unshare(unix.CLONE_NEWNET))
			fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			must(err)
			spaces[i] = fd
			in, err := netlink.NewHandle(unix.NETLINK_ROUTE)
			must(err)
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.MTU, attrs.Flags, attrs.MasterIndex = fmt.Sprintf("v%d", i), 1500, net.FlagUp, br.Index
			attrs.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 1, byte(i)}
			must(h.LinkAdd(&netlink.Veth{
				LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: net.HardwareAddr{2, 0, 0, 0, 2, byte(i)},
				PeerNamespace: netlink.NsFd(fd), PeerTxQLen: -1,
			}))
			must(in.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1}}))
			eth0, err := in.LinkByName("eth0")
			must(err)
			must(in.LinkSetUp(eth0))
			must(in.AddrAdd(eth0, address(4, 10, 1, 1, byte(i))))
			must(in.AddrAdd(eth0, address(6, 0, 1, 0, byte(i))))
			must(in.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.IPv4(10, 1, 0, 1)}))
			must(in.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: address(6, 0, 0, 0, 1).IP}))
			in.Close()
			must(unix.Setns(int(home.Fd()), unix.CLONE_NEWNET))
		}
		took = time.Since(start)
		runtime.KeepAlive(home)
		for _, fd := range spaces {
			must(unix.Close(fd))
		}
		for {
			left, err := h.LinkList()
			if err == nil && len(left) <= 2 {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		must(h.LinkDel(br))
		h.Close()
		return home.Close()
	}))
	return took
}

// address returns 10.… with a prefix of 16 bits, or fd00:10:1::… with 64 bits and without duplicate address detection.
func address(family int, a, b, c, d byte) *netlink.Addr {
	if family == 4 {
		return &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(a, b, c, d), Mask: net.CIDRMask(16, 32)}}
	}
	ip := net.IP{0xfd, 0, 0, 0x10, 0, 1, 0, 0, 0, 0, 0, 0, 0, b, c, d}
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
}
