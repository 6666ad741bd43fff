package link

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
