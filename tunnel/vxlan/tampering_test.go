package vxlan_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/vxlan"
)

// stand applies a lab whose two hosts are joined by the tunnel.
func stand(t *testing.T, given map[string]string) *networktest.Bed {
	t.Helper()
	kinds := stack.Kinds{tunnel.Kind{vxlan.Tunnel{}}}
	chosen, err := kinds.Choose("tunnel", "vxlan", given)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := network.Compose(networktest.Lab(2, 2), stack.Stack{chosen})
	if err != nil {
		t.Fatal(err)
	}
	return networktest.Stand(t, bridge.Network{}, lab)
}

// TestTampering changes what the suite does not know of, and wants Verify to say what it is.
func TestTampering(t *testing.T) {
	testnet.NotWithout(t)
	elsewhere := netip.MustParseAddr("198.18.0.77")
	remade := func(change func(*link.VXLAN)) func(*link.Handle, int) error {
		return func(h *link.Handle, index int) error {
			v, err := h.VXLAN("vxlan0")
			if err != nil {
				return err
			}
			entries, err := h.FDB(index)
			if err != nil {
				return err
			}
			change(&v)
			if err := h.Delete(index); err != nil {
				return err
			}
			index, err = h.AddVXLAN(v)
			for _, e := range entries {
				e.Link = index
				err = errors.Join(err, h.AddFDBEntry(e))
			}
			return err
		}
	}
	entry := func(change func(h *link.Handle, e link.FDBEntry) error) func(*link.Handle, int) error {
		return func(h *link.Handle, index int) error {
			entries, err := h.FDB(index)
			if err != nil || len(entries) != 1 {
				return errors.Join(err, errors.New("want one entry"))
			}
			return change(h, entries[0])
		}
	}
	rerouted := func(to string, change func(*link.Encap)) func(*link.Handle, int) error {
		return func(h *link.Handle, _ int) error {
			routes, err := h.EncapRoutes(netip.MustParsePrefix(to))
			if err != nil || len(routes) != 1 || routes[0].Encap == (link.Encap{}) {
				return errors.Join(err, errors.New("want one route with encap"))
			}
			if err := h.DeleteRoute(routes[0]); err != nil {
				return err
			}
			change(&routes[0].Encap)
			return h.AddRoute(routes[0])
		}
	}
	for _, c := range []struct {
		name, peers string
		do          func(*link.Handle, int) error
		want        string
	}{
		{"id", "fdb", remade(func(v *link.VXLAN) { v.ID++ }), "id of vxlan0: want 100, got 101"},
		{"port", "fdb", remade(func(v *link.VXLAN) { v.Port++ }), "port of vxlan0: want 4789, got 4790"},
		{
			"source address", "fdb", remade(func(v *link.VXLAN) { v.Local = elsewhere }),
			"source address of vxlan0: want 198.18.0.1, got 198.18.0.77",
		},
		{
			"checksum", "fdb", remade(func(v *link.VXLAN) { v.Checksum = true }), "checksum of vxlan0: want false, got true",
		},
		{"entry away", "fdb", entry(func(h *link.Handle, e link.FDBEntry) error { return h.DeleteFDBEntry(e) }), "got none"},
		{"entry misplaced", "fdb", entry(func(h *link.Handle, e link.FDBEntry) error {
			err := h.DeleteFDBEntry(e)
			e.At = elsewhere
			return errors.Join(err, h.AddFDBEntry(e))
		}), " at 198.18.0.77"},
		{"a second destination", "fdb", entry(func(h *link.Handle, e link.FDBEntry) error {
			e.At, e.MAC = elsewhere, make(net.HardwareAddr, 6)
			return h.AddFDBEntry(e)
		}), "00:00:00:00:00:00 at 198.18.0.77"},
		{
			"port of an external device", "routes", remade(func(v *link.VXLAN) { v.Port++ }),
			"port of vxlan0: want 4789, got 4790",
		},
		{
			"no longer external", "routes", remade(func(v *link.VXLAN) { v.External, v.ID = false, 100 }),
			"external of vxlan0: want true, got false",
		},
		{
			"id of a route", "routes", rerouted("10.2.0.0/16", func(e *link.Encap) { e.ID++ }),
			"got via 198.19.1.2 through vxlan0 encap id 101 from 198.18.0.1 to 198.18.0.2",
		},
		{
			"destination of a route", "routes", rerouted("fd00:10:2::/64", func(e *link.Encap) { e.Remote = elsewhere }),
			"got via fd00:198:19:1::2 through vxlan0 encap id 100 from 198.18.0.1 to 198.18.0.77",
		},
		{
			"checksum of a route", "routes", rerouted("198.19.1.2/32", func(e *link.Encap) { e.Checksum = true }),
			"got through vxlan0 encap id 100 from 198.18.0.1 to 198.18.0.2 with checksum",
		},
		{
			"ttl of a route", "routes", rerouted("198.19.1.2/32", func(e *link.Encap) { e.TTL = 0 }),
			"got through vxlan0 encap id 100 from 198.18.0.1 to 198.18.0.2 with ttl 0",
		},
		{
			"a route without its destination", "routes", rerouted("198.19.1.2/32", func(e *link.Encap) { *e = link.Encap{} }),
			"got through vxlan0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := stand(t, map[string]string{"peers": c.peers})
			m := b.Hosts[0]
			h, err := m.Kernel.Links("")
			if err != nil {
				t.Fatal(err)
			}
			l, err := h.ByName("vxlan0")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(h, l.Index); err != nil {
				t.Fatal(err)
			}
			err = m.Stack.Verify(t.Context(), m.Kernel)
			if _, ok := errors.AsType[*host.DriftError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Verify = %v, want a drift with %q", err, c.want)
			}
		})
	}
}
