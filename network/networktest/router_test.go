package networktest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/ebpf"
	hostnetwork "github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/passthrough"
)

// routedLab is a lab whose hosts are joined by routers.
func routedLab(hosts, pairs int, m network.Medium) network.Lab {
	lab := Lab(hosts, pairs)
	lab.Underlay = m
	return lab
}

// TestRouter wants packets of each kind to pass routers on the way that is planned, in labs of two and of three hosts.
func TestRouter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		network network.Network
		hosts   int
		medium  network.Medium
	}{
		{bridge.Network{}, 3, network.Medium{Hops: 1}},
		{bridge.Network{}, 3, network.Medium{Hops: 2}},
		{ebpf.Network{}, 2, network.Medium{Paths: 2}},
		{nat.Network{}, 2, network.Medium{Hops: 2, Paths: 2}},
		{ebpf.Network{}, 2, network.Medium{Hops: 1}},
		{nat.Network{}, 2, network.Medium{Hops: 1}},
		{hostnetwork.Network{}, 2, network.Medium{Hops: 1}},
	} {
		t.Run(fmt.Sprintf("%s, %d hosts, %s", c.network.Describe().Name, c.hosts, c.medium), func(t *testing.T) {
			t.Parallel()
			params, err := c.network.Describe().Params.Resolve("", nil)
			if err != nil {
				t.Fatal(err)
			}
			v := variant{c.network, params, nil}
			if err := errors.Join(packets(t, v, routedLab(c.hosts, c.hosts, c.medium)),
				path(t, v, detours(), routedLab(c.hosts, c.hosts, c.medium))); err != nil {
				testnet.Skip(t, err)
			}
		})
	}
}

// TestRouterUndone wants an underlay with routers to be undone, from data too, and tampering with it to be noticed.
func TestRouterUndone(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	one, two := network.Medium{Hops: 1, Rate: 1e9}, network.Medium{Paths: 2, Rate: 1e9}
	testnet.Skip(t, errors.Join(undo(t, bridge.Network{}, routedLab(2, 1, one)),
		fromData(t, bridge.Network{}, routedLab(2, 1, two)),
		tampering(t, Fake{}, seen, routedLab(2, 1, two))))
	if !seen["remove one way of a route with several ways"] {
		t.Errorf("nobody tampered with a path: %v", seen)
	}
}

// TestNotRouted wants networks whose containers are on the underlay to be refused where that ends at a router.
func TestNotRouted(t *testing.T) {
	for _, n := range []network.Network{macvlan.Network{}, passthrough.Network{}} {
		if _, _, err := n.Build(routedLab(2, 1, network.Medium{Hops: 1})); err == nil {
			t.Errorf("%s is built on an underlay with a router", n.Describe().Name)
		}
	}
}
