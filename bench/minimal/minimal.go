package minimal

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/netns"
)

// Containers makes a bridge and n containers, the same as a plan of network "bridge" and runtime "netns" makes on one
// host. Each container has a namespace, a veth pair between bridge and namespace, an IPv4 and an IPv6 address, and a
// default route for both. It returns how long this took. Everything is made in a namespace of its own, and all links
// are gone when it returns.
func Containers(n int) (took time.Duration, err error) {
	var bridge *netlink.Handle
	home, err := netns.New(func() (err error) {
		bridge, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("make containers: %w", err)
	}
	defer func() { _ = home.Close() }()
	defer bridge.Close()
	spaces := make([]*os.File, 0, n)
	began := time.Now()
	err = netns.Do(int(home.Fd()), func() error {
		br, err := addBridge(bridge)
		for i := 0; err == nil && i < n; i++ {
			var space *os.File
			if space, err = add(bridge, br, i); space != nil {
				spaces = append(spaces, space)
			}
		}
		return err
	})
	took = time.Since(began)
	for _, space := range spaces {
		err = errors.Join(err, space.Close())
	}
	if err != nil {
		return 0, fmt.Errorf("make containers: %w", err)
	}
	return took, gone(bridge)
}

// MTU and address ranges are those of the labs.
const mtu = 1500

func addBridge(h *netlink.Handle) (*netlink.Bridge, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	br := &netlink.Bridge{LinkAttrs: attrs}
	return br, first(
		func() error { return h.LinkAdd(br) },
		func() error { return h.LinkSetUp(br) },
		func() error { return h.AddrAdd(br, ipv4(0, 1)) },
		func() error { return h.AddrAdd(br, ipv6(0, 1)) },
	)
}

// add makes one container. It returns the namespace even with an error.
func add(h *netlink.Handle, br *netlink.Bridge, i int) (*os.File, error) {
	var in *netlink.Handle
	space, err := netns.New(func() (err error) {
		in, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Flags, attrs.MasterIndex = fmt.Sprintf("v%d", i), mtu, net.FlagUp, br.Index
	attrs.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 1, byte(i)}
	err = h.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: net.HardwareAddr{2, 0, 0, 0, 2, byte(i)},
		PeerNamespace: netlink.NsFd(space.Fd()), PeerTxQLen: -1,
	})
	if err != nil {
		return space, err
	}
	eth0, err := in.LinkByName("eth0")
	if err != nil {
		return space, err
	}
	index := eth0.Attrs().Index
	return space, first(
		func() error { return in.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1}}) },
		func() error { return in.LinkSetUp(eth0) },
		func() error { return in.AddrAdd(eth0, ipv4(1, byte(i))) },
		func() error { return in.AddrAdd(eth0, ipv6(1, byte(i))) },
		func() error { return in.RouteAdd(&netlink.Route{LinkIndex: index, Gw: ipv4(0, 1).IP}) },
		func() error { return in.RouteAdd(&netlink.Route{LinkIndex: index, Gw: ipv6(0, 1).IP}) },
	)
}

// first calls the steps in order until one fails.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// ipv4 returns an address of network.Gateway (0, 1) or network.ContainerAddr (1, i). So does ipv6.
func ipv4(c, d byte) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 1, c, d), Mask: net.CIDRMask(16, 32)}}
}

func ipv6(c, d byte) *netlink.Addr {
	ip := net.IP{0xfd, 0, 0, 0x10, 0, 1, 0, 0, 0, 0, 0, 0, 0, c, 0, d}
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
}

const (
	goneLimit = 10 * time.Second
	poll      = 2 * time.Millisecond
)

// gone waits until the veths on the host are gone. Each disappears after its namespace.
func gone(h *netlink.Handle) error {
	for began := time.Now(); time.Since(began) < goneLimit; time.Sleep(poll) {
		links, err := h.LinkList()
		if err == nil && len(links) <= 2 { // lo and the bridge
			return nil
		}
	}
	return fmt.Errorf("the links of removed namespaces are still there after %v", goneLimit)
}
