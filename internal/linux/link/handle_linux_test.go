package link

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		missing string
		is      error
		want    string
	}{
		{"nothing", nil, "x", nil, ""},
		{
			"link type", unix.EOPNOTSUPP, `link type "veth"`, errors.ErrUnsupported,
			`make it: not supported here: missing link type "veth": operation not supported (hint: load the kernel's module for it, or use a kernel that has it)`,
		},
		{"operation", unix.EOPNOTSUPP, "", unix.EOPNOTSUPP, "make it: operation not supported"},
		{
			"privilege", unix.EPERM, "", errors.ErrUnsupported,
			"make it: not supported here: missing CAP_NET_ADMIN: operation not permitted (hint: run it as root)",
		},
		{"gone", unix.ENODEV, "", ErrNotFound, "make it: not found"},
		{"there", unix.EEXIST, "", ErrExists, "make it: exists already"},
		{"other", unix.ENETUNREACH, "IPv4", unix.ENETUNREACH, "make it: network is unreachable"},
		{"IPv6 off", unix.EACCES, "IPv6", errors.ErrUnsupported, "make it: not supported here: missing IPv6: permission " +
			"denied (hint: it is disabled on this link: see net.ipv6.conf.all.disable_ipv6, and an MTU below 1280 disables it " +
			"too)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := explain("make it", c.err, c.missing)
			if got := text(err); got != c.want || !errors.Is(err, c.is) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestHandle(t *testing.T) {
	m := testnet.New(t)
	var h *Handle
	if err := m.Do(func() (err error) {
		h, err = Open()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	br, err := h.AddBridge(Bridge{Name: "br0", MTU: 9000, MAC: []byte{2, 0, 0, 0, 0, 1}})
	testnet.Skip(t, err)
	near, err := h.AddVeth(Veth{
		Name: "a", PeerName: "b", PeerNS: m.NS, MTU: 9000, Master: br, MAC: []byte{2, 0, 0, 0, 0, 2},
		PeerMAC: []byte{2, 0, 0, 0, 0, 3},
	})
	testnet.Skip(t, err)
	a, err := h.ByIndex(near)
	if err != nil {
		t.Fatal(err)
	}
	b, err := h.ByName("b")
	if err != nil {
		t.Fatal(err)
	}
	if a.Type != "veth" || !a.Up || a.MTU != 9000 || a.Master != br || a.MAC.String() != "02:00:00:00:00:02" ||
		a.Peer != b.Index {
		t.Errorf("the near end is %+v", a)
	}
	if b.Type != "veth" || b.Up || b.MTU != 9000 || b.Master != 0 || b.MAC.String() != "02:00:00:00:00:03" ||
		b.Peer != a.Index {
		t.Errorf("the far end is %+v", b)
	}
	if l, err := h.ByIndex(br); err != nil || l.MTU != 9000 || l.MAC.String() != "02:00:00:00:00:01" || l.Snooping {
		t.Errorf("the bridge is %+v (%v)", l, err)
	}
	// A bridge keeps its address and its MTU when its last port is removed.
	if err := h.Delete(near); err != nil {
		t.Error(err)
	}
	if l, err := h.ByIndex(br); err != nil || l.MTU != 9000 || l.MAC.String() != "02:00:00:00:00:01" {
		t.Errorf("without ports the bridge is %+v (%v)", l, err)
	}
	none := netip.MustParsePrefix("192.0.2.1/24")
	for what, err := range map[string]error{
		"Delete":        h.Delete(near),
		"SetUp":         h.SetUp(near, true),
		"AddAddress":    h.AddAddress(near, none),
		"DeleteAddress": h.DeleteAddress(br, none),
		"DeleteRoute":   h.DeleteRoute(Route{To: none.Masked(), Link: br}),
		"ByName":        second(h.ByName("a")),
		"ByIndex":       second(h.ByIndex(near)),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of what is gone = %v, want %v", what, err, ErrNotFound)
		}
	}
	if err := errors.Join(h.AddAddress(br, none), h.DeleteAddress(br, none), h.AddAddress(br, none)); err != nil {
		t.Error(err)
	}
	for a, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.2": false, "203.0.113.1": false, "2001:db8::1": false,
	} {
		if got, err := h.Local(netip.MustParseAddr(a)); got != want || err != nil {
			t.Errorf("Local(%s) = %t, %v, want %t", a, got, err, want)
		}
	}
	if err := h.AddAddress(br, none); !errors.Is(err, ErrExists) {
		t.Errorf("AddAddress of what is there = %v, want %v", err, ErrExists)
	}
}

func second(_ Link, err error) error { return err }

func TestMacvlan(t *testing.T) {
	m, inside := testnet.New(t), testnet.New(t)
	open := func(m *testnet.Machine) (h *Handle) {
		t.Helper()
		if err := m.Do(func() (err error) {
			h, err = Open()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		return h
	}
	h, there := open(m), open(inside)
	lower, err := h.AddVeth(Veth{Name: "lower0", PeerName: "lower1", PeerNS: m.NS, MTU: 9000})
	testnet.Skip(t, err)
	for _, mode := range MacvlanModes() {
		name := "m" + mode
		err := h.AddMacvlan(Macvlan{
			Name: name, NS: inside.NS, Lower: lower, Mode: mode, MAC: []byte{2, 0, 0, 0, 0, 9}, MTU: 8000,
		})
		testnet.Skip(t, err)
		l, err := there.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		mac := "02:00:00:00:00:09"
		if mode == "passthru" { // it has the address of the link below
			below, err := h.ByIndex(lower)
			if err != nil {
				t.Fatal(err)
			}
			mac = below.MAC.String()
		}
		if l.Type != "macvlan" || !l.Up || l.MTU != 8000 || l.Lower != lower || l.Mode != mode || l.MAC.String() != mac {
			t.Errorf("the link is %+v", l)
		}
		if _, err := h.ByName(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("it is also where the link below is: %v", err)
		}
		if mode != "passthru" {
			if err := there.SetMacvlanMode(l.Index, "private"); err != nil {
				t.Error(err)
			}
			if l, err := there.ByIndex(l.Index); err != nil || l.Mode != "private" {
				t.Errorf("after a change of its mode the link is %+v (%v)", l, err)
			}
		}
		if err := there.Delete(l.Index); err != nil {
			t.Fatal(err)
		}
	}
}
