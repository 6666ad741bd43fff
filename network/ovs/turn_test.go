package ovs_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/ovs"
)

// TestInTurn wants a container to find neighbours that it looks for one soon after another: flows of the kernel's
// datapath live for seconds, and one that did not compare who is asked for sent all questions to the first neighbour.
func TestInTurn(t *testing.T) {
	lab := networktest.Lab(1, 2)
	lab.Params = map[string]string{"datapath": "auto", "flows": "explicit"}
	b, err := networktest.MakeBed(t, ovs.Network{}, lab)
	if err != nil {
		testnet.Skip(t, err)
	}
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Apply(t); err != nil {
		testnet.Skip(t, err)
	}
	k, h := b.Hosts[0].Kernel, lab.Hosts[0]
	for _, v6 := range []bool{false, true} {
		of := func(v4, v6Addr netip.Prefix) netip.Addr {
			if v6 {
				return v6Addr.Addr()
			}
			return v4.Addr()
		}
		targets := []netip.Addr{}
		for _, c := range h.Containers {
			targets = append(targets, of(network.ContainerAddr(h.Index, c.Index)))
		}
		targets = append(targets, of(network.Gateway(h.Index)))
		for i, c := range h.Containers {
			for j, to := range targets {
				if i != j && !found(t, k, c.Name, to) {
					t.Errorf("%s does not find %s", c.Name, to)
				}
			}
		}
	}
}

// found says whether a container finds out the MAC address of a neighbour within 20 seconds.
func found(t *testing.T, k *host.Kernel, ns string, to netip.Addr) bool {
	t.Helper()
	if err := k.Do(ns, func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("who is there?"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	links, err := k.Links(ns)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		list, err := links.Neighbours(to)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			if len(n.MAC) == 6 {
				return true
			}
		}
	}
	return false
}
