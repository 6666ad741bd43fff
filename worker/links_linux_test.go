package worker_test

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/worker"
)

// The devices of a namespace count what is sent there.
func TestCountDevices(t *testing.T) {
	if err := testnet.New(t).Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		if err := h.SetUp(lo.Index, true); err != nil {
			return err
		}
		counted := func() (traffic.DeviceCount, error) {
			list, err := worker.CountDevices(h)
			i := slices.IndexFunc(list, func(d traffic.DeviceCount) bool { return d.Name == "lo" && d.Index == lo.Index })
			if err != nil || i < 0 {
				return traffic.DeviceCount{}, fmt.Errorf("lo is not among %+v: %w", list, err)
			}
			return list[i], nil
		}
		before, err := counted()
		if err != nil {
			return err
		}
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return err
		}
		defer c.Close()
		const sent, size = 10, 100
		for range sent {
			if _, err := c.WriteTo(make([]byte, size), c.LocalAddr()); err != nil {
				return err
			}
		}
		after, err := counted()
		if err != nil {
			return err
		}
		if after.Sent-before.Sent < sent || after.Received-before.Received < sent ||
			after.SentBytes-before.SentBytes < sent*size {
			t.Errorf("lo counted %+v and then %+v, want %d packets of %d bytes more", before, after, sent, size)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The MTU of a route counts if it is less than that of its link, in both families.
func TestOwnLinksOfRoutes(t *testing.T) {
	if err := testnet.New(t).Do(func() error {
		if err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1500}, PeerName: "peer0", PeerMTU: 1500,
		}); err != nil {
			return err
		}
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(eth0); err != nil {
			return err
		}
		for to, mtu := range map[string]int{"10.9.0.0/24": 1450, "fd00:9::/64": 1430, "fd00:a::/64": 9000} {
			_, destination, err := net.ParseCIDR(to)
			if err != nil {
				return err
			}
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Dst: destination, MTU: mtu}); err != nil {
				return fmt.Errorf("route to %s: %w", to, err)
			}
		}
		list, err := worker.OwnLinks()
		if err != nil {
			return err
		}
		got := map[string][2]int{}
		for _, l := range list {
			got[l.Name] = [2]int{l.MTU, l.Longest()}
		}
		if want := [2]int{1500, 1430}; got["eth0"] != want || got["peer0"] != [2]int{1500, 1500} {
			t.Errorf("MTU and longest packet by link: %v, want %v of eth0 and 1500 of peer0", got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
