package link

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/internal/testnet"
)

// handle opens a handle in a namespace of the test.
func handle(t *testing.T) *Handle {
	t.Helper()
	m := testnet.New(t)
	var h *Handle
	if err := m.Do(func() (err error) { h, err = Open(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func TestVXLAN(t *testing.T) {
	h := handle(t)
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	v4, v6 := netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("fd00::1")
	for _, want := range []VXLAN{
		{Name: "v", MAC: mac, MTU: 1400, ID: 1, Port: 4789, Local: v4},
		{Name: "v", MAC: mac, MTU: 1400, ID: 1<<24 - 1, Port: 65535, Local: v4, Checksum: true},
		{Name: "v", MAC: mac, MTU: 1280, ID: 7, Port: 8472, Local: v6},
		{Name: "v", MAC: mac, MTU: 1280, ID: 7, Port: 8472, Local: v6, Checksum: true},
		{Name: "v", MAC: mac, MTU: 1400, Port: 4789, External: true},
	} {
		index, err := h.AddVXLAN(want)
		testnet.Skip(t, err)
		got, err := h.VXLAN("v")
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
			t.Errorf("made and read (%v) (-want +got):\n%s", err, diff)
		}
		if _, err := h.AddVXLAN(want); !errors.Is(err, ErrExists) {
			t.Errorf("made twice: %v", err)
		}
		if err := h.Delete(index); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.VXLAN("v"); !errors.Is(err, ErrNotFound) {
		t.Errorf("read what is gone: %v", err)
	}
	if got, err := h.VXLAN("lo"); err != nil || got.Port != 0 {
		t.Errorf("the loopback link as a VXLAN: %+v (%v)", got, err)
	}
	if _, err := h.AddVXLAN(VXLAN{Name: "a name that is too long"}); err == nil {
		t.Error("a name that is too long is taken")
	}
}

func TestFDB(t *testing.T) {
	h := handle(t)
	a := netip.MustParseAddr("198.18.0.2")
	index, err := h.AddVXLAN(VXLAN{Name: "v", MTU: 1400, ID: 1, Port: 4789, Local: netip.MustParseAddr("198.18.0.1")})
	testnet.Skip(t, err)
	if _, err := h.AddVXLAN(VXLAN{
		Name: "w", MTU: 1400, ID: 2, Port: 4789, Local: netip.MustParseAddr("198.18.0.1"),
	}); err != nil {
		t.Fatal(err)
	}
	e := FDBEntry{Link: index, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, At: a}
	if err := h.AddFDBEntry(e); err != nil {
		t.Fatal(err)
	}
	got, err := h.FDB(index)
	if diff := cmp.Diff([]FDBEntry{e}, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
		t.Errorf("entries (%v) (-want +got):\n%s", err, diff)
	}
	if other, err := h.FDB(index + 1); len(other) > 0 || err != nil {
		t.Errorf("the other device has %v (%v)", other, err)
	}
	if err := h.DeleteFDBEntry(e); err != nil {
		t.Error(err)
	}
	if err := h.DeleteFDBEntry(e); !errors.Is(err, ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	e.Port, e.ID, e.Through, e.Learned = 1, 2, 3, true
	if want := "02:00:00:00:00:02 at 198.18.0.2 port 1 vni 2 through link 3 (not permanent)"; e.String() != want {
		t.Errorf("String() = %q, want %q", e, want)
	}
}

func TestEncap(t *testing.T) {
	h := handle(t)
	index, err := h.AddVXLAN(VXLAN{Name: "v", MTU: 1400, Port: 4789, External: true})
	testnet.Skip(t, err)
	if err := errors.Join(h.AddAddress(index, netip.MustParsePrefix("198.19.1.1/24")),
		h.AddAddress(index, netip.MustParsePrefix("fd00:19::1/64")), h.SetUp(index, true)); err != nil {
		t.Fatal(err)
	}
	v4 := Encap{ID: 5, Local: netip.MustParseAddr("198.18.0.1"), Remote: netip.MustParseAddr("198.18.0.2")}
	v6 := Encap{
		ID: 1<<24 - 1, Local: netip.MustParseAddr("fd00::1"), Remote: netip.MustParseAddr("fd00::2"), Checksum: true,
	}
	for _, want := range []Route{
		{To: netip.MustParsePrefix("10.1.0.0/16"), Via: netip.MustParseAddr("198.19.1.2"), Link: index, Encap: v4},
		{To: netip.MustParsePrefix("10.2.0.0/16"), Link: index, Encap: v6},
		{To: netip.MustParsePrefix("fd01::/64"), Via: netip.MustParseAddr("fd00:19::2"), Link: index, Encap: v4},
		{To: netip.MustParsePrefix("fd02::1/128"), Link: index, Encap: v6},
		{To: netip.MustParsePrefix("10.3.0.0/16"), Link: index},
	} {
		testnet.Skip(t, h.AddRoute(want))
		got, err := h.EncapRoutes(want.To)
		if len(got) != 1 || got[0] != want || err != nil {
			t.Errorf("routes are %+v (%v), want %+v", got, err, want)
		}
		if err := h.DeleteRoute(want); err != nil {
			t.Error(err)
		}
		if got, err := h.EncapRoutes(want.To); len(got) > 0 || err != nil {
			t.Errorf("removed, routes are %+v (%v)", got, err)
		}
	}
	if err := h.AddRoute(Route{
		To: netip.MustParsePrefix("10.4.0.0/16"), Link: index, Encap: Encap{Local: v6.Local, Remote: v4.Remote},
	}); err == nil {
		t.Error("addresses of two families are taken")
	}
}

func TestGeneve(t *testing.T) {
	h := handle(t)
	want := Geneve{Name: "g", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, MTU: 1400, Port: 6082, External: true}
	_, err := h.AddGeneve(want)
	testnet.Skip(t, err)
	got, err := h.Geneve("g")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("made and read (%v) (-want +got):\n%s", err, diff)
	}
	if got, err := h.Geneve("lo"); err != nil || got.Port != 0 {
		t.Errorf("the loopback link as a GENEVE: %+v (%v)", got, err)
	}
}
