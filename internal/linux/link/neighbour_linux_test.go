package link

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// The entries of an address are read on all links, and none of another one; of a bridge, what it knows at one port.
func TestNeighbours(t *testing.T) {
	h := handle(t)
	bridge, err := h.AddBridge(Bridge{Name: "b"})
	testnet.Skip(t, err)
	peers, err := netns.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer peers.Close()
	mac, other := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	port, err := h.AddVeth(Veth{Name: "p", MAC: mac, Master: bridge, PeerName: "q", PeerNS: peers})
	testnet.Skip(t, err)
	for _, address := range []string{"198.18.0.1", "fd00::1"} {
		a := netip.MustParseAddr(address)
		if got, err := h.Neighbours(a); err != nil || len(got) > 0 {
			t.Errorf("before: %v (%v), want none", got, err)
		}
		want := Neighbour{Link: bridge, Address: a, MAC: other}
		for _, n := range []Neighbour{want, {Link: bridge, Address: a.Next(), MAC: mac}} {
			if err := h.SetNeighbour(n); err != nil {
				t.Fatal(err)
			}
		}
		got, err := h.Neighbours(a)
		if diff := cmp.Diff([]Neighbour{want}, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
			t.Errorf("neighbours of %s (%v) (-want +got):\n%s", a, err, diff)
		}
	}
	got, err := h.Stations(port)
	if err != nil || !slices.ContainsFunc(got, func(m net.HardwareAddr) bool { return slices.Equal(m, mac) }) {
		t.Errorf("stations at the port: %v (%v), want its own address %v", got, err, mac)
	}
	if got, err := h.Stations(bridge + 1000); err != nil || len(got) > 0 {
		t.Errorf("stations at no port: %v (%v)", got, err)
	}
}

// Learned entries are those that were not given: permanent and multicast ones are none.
func TestLearned(t *testing.T) {
	h := handle(t)
	index, err := h.AddBridge(Bridge{Name: "b"})
	testnet.Skip(t, err)
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	var want []Neighbour
	for i, address := range []string{"198.18.0.1", "fd00::1", "198.18.0.2", "fd00::2", "ff02::1"} {
		state := netlink.NUD_STALE
		switch n := (Neighbour{Link: index, Address: netip.MustParseAddr(address), MAC: mac}); {
		case i < 2:
			want = append(want, n)
		case i < 4:
			state = netlink.NUD_PERMANENT
		default:
			state = netlink.NUD_NOARP
		}
		if err := h.h.NeighSet(&netlink.Neigh{
			LinkIndex: index, IP: netip.MustParseAddr(address).AsSlice(), HardwareAddr: mac, State: state,
		}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.Learned()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
		t.Errorf("learned (%v) (-want +got):\n%s", err, diff)
	}
	for _, n := range got {
		if err := h.DeleteNeighbour(n); err != nil {
			t.Error(err)
		}
	}
	if got, err := h.Learned(); len(got) > 0 || err != nil {
		t.Errorf("still there: %v (%v)", got, err)
	}
}
