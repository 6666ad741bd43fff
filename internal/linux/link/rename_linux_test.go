package link

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A link that has to be down for its new name has its addresses and routes afterwards.
func TestRenameDown(t *testing.T) {
	if err := testnet.New(t).Do(func() error {
		h, err := Open()
		if err != nil {
			return err
		}
		defer h.Close()
		own, err := netns.Current()
		if err != nil {
			return err
		}
		defer own.Close()
		index, err := h.AddVeth(Veth{Name: "before0", PeerName: "peer0", PeerNS: own})
		if err != nil {
			return err
		}
		addresses := []netip.Prefix{netip.MustParsePrefix("10.1.0.1/32"), netip.MustParsePrefix("fd00:10:1::1/128")}
		routes := []netip.Prefix{netip.MustParsePrefix("10.1.1.0/32"), netip.MustParsePrefix("fd00:10:1::1:0/128")}
		for i := range addresses {
			if err := h.AddAddress(index, addresses[i]); err != nil {
				return err
			}
			if err := h.AddRoute(Route{To: routes[i], Link: index}); err != nil {
				return err
			}
		}
		if err := h.renameDown(index, "vsrc0", []netip.Addr{routes[0].Addr(), routes[1].Addr()}); err != nil {
			return err
		}
		got, err := h.ByName("vsrc0")
		if err != nil || got.Index != index || !got.Up {
			t.Errorf("link %+v, %v, want the same link, up", got, err)
		}
		has, err := h.Addresses(index)
		if err != nil {
			return err
		}
		for i := range addresses {
			if !slices.Contains(has, addresses[i]) {
				t.Errorf("address %s is missing in %v", addresses[i], has)
			}
			if found, err := h.Routes(routes[i]); err != nil || len(found) != 1 || found[0].Link != index {
				t.Errorf("routes to %s: %v, %v, want one", routes[i], found, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
