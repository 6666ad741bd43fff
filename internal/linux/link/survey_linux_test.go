package link

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A survey shows the place of the other end of a link, and lists addresses and routes of both families.
func TestSurvey(t *testing.T) {
	m := testnet.New(t)
	other, err := netns.New(nil)
	testnet.Skip(t, err)
	defer other.Close()
	var h *Handle
	if err := m.Do(func() (err error) {
		h, err = Open()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	veth, err := h.AddVeth(Veth{Name: "a", PeerName: "b", PeerNS: other})
	testnet.Skip(t, err)
	for _, step := range []error{
		h.AddAddress(veth, netip.MustParsePrefix("10.9.0.1/24")), h.AddAddress(veth, netip.MustParsePrefix("fd00:9::1/64")),
		h.SetUp(veth, true),
		h.AddRoute(Route{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.9.0.2")}),
		h.AddRoute(Route{To: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr("fd00:9::2"), Link: veth}),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	s, err := h.Survey()
	if err != nil {
		t.Fatal(err)
	}
	there, err := h.ID(other)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, l := range s.Links {
		if l.Name != "a" {
			continue
		}
		found = true
		if l.Index != veth || l.Other == 0 || l.There != there || there < 0 {
			t.Errorf("%+v, want the other end in namespace %d", l, there)
		}
		if diff := cmp.Diff([]string{"10.9.0.1/24", "fd00:9::1/64"}, texts(l.Addresses)); diff != "" {
			t.Error(diff)
		}
	}
	if !found {
		t.Errorf("no link a in %+v", s.Links)
	}
	var routes []string
	for _, r := range s.Routes {
		if r.Link == veth && r.Table == 0 && r.Kind == 1 {
			routes = append(routes, r.To.String()+" "+r.Via.String())
		}
	}
	want := []string{"0.0.0.0/0 10.9.0.2", "10.9.0.0/24 invalid IP", "::/0 fd00:9::2", "fd00:9::/64 invalid IP"}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Error(diff)
	}
	own, err := netns.New(nil)
	testnet.Skip(t, err)
	defer own.Close()
	if id, err := h.ID(own); err != nil || id >= 0 {
		t.Errorf("a stranger is called %d, %v", id, err)
	}
}

func texts(list []netip.Prefix) (all []string) {
	for _, p := range list {
		all = append(all, p.String())
	}
	return all
}

// A port of a bridge is isolated if the bridge says so, and what is no port is not known to be.
func TestIsolated(t *testing.T) {
	m := testnet.New(t)
	testnet.Skip(t, m.Do(func() error {
		h, err := Open()
		if err != nil {
			return err
		}
		defer h.Close()
		bridge, err := h.AddBridge(Bridge{Name: "b"})
		if err != nil {
			return err
		}
		index, err := h.AddVeth(Veth{Name: "v0", PeerName: "v1", PeerNS: m.NS, MTU: 1500})
		if err != nil {
			return err
		}
		if err := h.SetMaster(index, bridge); err != nil {
			return err
		}
		if got, err := h.Isolated(bridge); got || err != nil {
			t.Errorf("a bridge, which is no port: isolated: %t, error %v", got, err)
		}
		for _, want := range []bool{false, true} {
			if err := h.h.LinkSetIsolated(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}, want); err != nil {
				return err
			}
			if got, err := h.Isolated(index); got != want || err != nil {
				t.Errorf("isolated: %t, want %t, error %v", got, want, err)
			}
		}
		return nil
	}))
}
