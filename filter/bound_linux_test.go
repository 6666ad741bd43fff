package filter

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/proof/packet"
)

// Everything that leaves by a link to a container is for the container, for a group, or neither IPv4 nor IPv6. The same
// frames all arrive without the table.
func TestBoundDestinations(t *testing.T) {
	own := Binding{
		Link: "to-c0", MAC: "02:00:00:00:00:10", IPv4: netip.MustParseAddr("10.1.1.2"),
		IPv6: netip.MustParseAddr("fd00:10:1::1:2"),
	}
	mac, err := own.Hardware()
	if err != nil {
		t.Fatal(err)
	}
	other := Binding{
		Link: "to-c1", MAC: "02:00:00:00:00:11", IPv4: netip.MustParseAddr("10.1.1.3"),
		IPv6: netip.MustParseAddr("fd00:10:1::1:3"),
	}
	theirs, err := other.Hardware()
	if err != nil {
		t.Fatal(err)
	}
	gateway4, gateway6 := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("fd00:10:1::1")
	host := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	ip := func(frameTo net.HardwareAddr, to string) []byte {
		a := netip.MustParseAddr(to)
		from := gateway4
		if a.Is6() {
			from = gateway6
		}
		return packet.Frame(frameTo, host, packet.TypeOf(a), packet.IP(from, a, packet.UDP, packet.Hops,
			packet.Datagram(netip.AddrPortFrom(from, 1000), netip.AddrPortFrom(a, 2000), "nettoll")))
	}
	tagged := func(frame []byte) []byte { return packet.Tagged(frame, [2]uint16{0x8100, 7}) }
	solicited, asks := packet.Solicitation(host, gateway6, own.IPv6)
	fragments := func(frameTo net.HardwareAddr, to netip.Addr) []byte {
		return packet.Frame(frameTo, host, packet.TypeIPv4, packet.Fragments(gateway4, to, packet.UDP, make([]byte, 64), 32,
			7)[1])
	}
	broadcast := packet.Broadcast()
	cases := []struct {
		what   string
		frame  []byte
		passes bool
	}{
		{"IPv4 for it", ip(mac[:], "10.1.1.2"), true},
		{"IPv6 for it", ip(mac[:], "fd00:10:1::1:2"), true},
		{"IPv6 for its link-local address", ip(mac[:], LinkLocal(mac).String()), true},
		{"a later fragment for it", fragments(mac[:], own.IPv4), true},
		{"IPv4 for it behind a tag", tagged(ip(mac[:], "10.1.1.2")), true},
		{"a request of ARP to all", packet.Frame(broadcast, host, packet.TypeARP, packet.ARP(1, host, gateway4,
			make(net.HardwareAddr, 6), own.IPv4)), true},
		{"an answer of ARP", packet.Frame(mac[:], host, packet.TypeARP, packet.ARP(packet.Reply, host, gateway4, mac[:],
			own.IPv4)), true},
		{"a solicitation to its group", packet.Frame(solicited, host, packet.TypeIPv6, asks), true},
		{"an advertisement for it", packet.Frame(mac[:], host, packet.TypeIPv6, packet.Advertisement(host, gateway6,
			own.IPv6)), true},
		{"IPv4 for a group", ip(net.HardwareAddr{1, 0, 0x5e, 0, 0, 1}, "224.0.0.1"), true},
		{"IPv4 for the last group", ip(net.HardwareAddr{1, 0, 0x5e, 0x7f, 0xff, 0xff}, "239.255.255.255"), true},
		{"IPv4 for all", ip(broadcast, "255.255.255.255"), true},
		{"IPv6 for a group", ip(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, "ff02::1"), true},

		{"IPv4 for another", ip(mac[:], "10.1.1.3"), false},
		{"IPv6 for another", ip(mac[:], "fd00:10:1::1:3"), false},
		{"IPv6 for the link-local address of another", ip(mac[:], LinkLocal(theirs).String()), false},
		{"IPv4 for another in a frame for another", ip(theirs[:], "10.1.1.3"), false},
		{"IPv6 for another in a frame for another", ip(theirs[:], "fd00:10:1::1:3"), false},
		{"IPv4 for it in a frame for another", ip(theirs[:], "10.1.1.2"), false},
		{"IPv6 for it in a frame for another", ip(theirs[:], "fd00:10:1::1:2"), false},
		{"IPv4 for another in a frame for nobody", ip(net.HardwareAddr{2, 9, 9, 9, 9, 9}, "10.1.1.3"), false},
		{"IPv4 for another in a frame for all", ip(broadcast, "10.1.1.3"), false},
		{"IPv6 for another in a frame for all", ip(broadcast, "fd00:10:1::1:3"), false},
		{"IPv4 for another in a frame for a group", ip(net.HardwareAddr{1, 0, 0x5e, 0, 0, 1}, "10.1.1.3"), false},
		{"IPv6 for another in a frame for a group", ip(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, "fd00:10:1::1:3"), false},
		{"a later fragment for another", fragments(mac[:], other.IPv4), false},
		{"IPv4 for another behind a tag", tagged(ip(theirs[:], "10.1.1.3")), false},
		{"IPv6 for another behind a tag", tagged(ip(theirs[:], "fd00:10:1::1:3")), false},
		{"IPv4 for an address behind the last group", ip(mac[:], "240.0.0.1"), false},
		{"an advertisement for another", packet.Frame(mac[:], host, packet.TypeIPv6, packet.Advertisement(host, gateway6,
			other.IPv6)), false},
	}
	m := testnet.New(t)
	inner, err := netns.New(nil)
	if err != nil {
		testnet.Skip(t, err)
	}
	defer inner.Close()
	var out, in *os.File
	if err := m.Do(func() error {
		out, in, err = join(own.Link, other.Link, inner)
		return err
	}); err != nil {
		testnet.Skip(t, err)
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	send := func(i int) {
		t.Helper()
		f := slices.Clone(cases[i].frame)
		copy(f[6:], net.HardwareAddr{2, 'n', 'e', 't', 't', byte(i)}) // who sends it is its number
		if _, err := out.Write(f); err != nil {
			t.Fatalf("send %s: %v", cases[i].what, err)
		}
	}
	// hear waits for this many frames, and then for those that should not come.
	hear := func(n int) map[int]bool {
		t.Helper()
		heard := map[int]bool{}
		wait := func(d time.Duration) { _ = in.SetReadDeadline(time.Now().Add(d)) }
		wait(10 * time.Second)
		if n == 0 {
			wait(300 * time.Millisecond)
		}
		for buf := make([]byte, 2000); ; {
			length, err := in.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return heard
			}
			if err != nil {
				t.Fatal(err)
			}
			if length > 12 && string(buf[7:11]) == "nett" {
				if heard[int(buf[11])] = true; len(heard) == n {
					wait(300 * time.Millisecond)
				}
			}
		}
	}
	for range 30 { // the ports of a bridge forward when their links have come up
		if send(0); hear(0)[0] {
			break
		}
	}
	arrived := func(n int) (list []string) {
		t.Helper()
		for i := range cases {
			send(i)
		}
		heard := hear(n)
		for i, c := range cases {
			if heard[i] {
				list = append(list, c.what)
			}
		}
		return list
	}
	var all, want []string
	for _, c := range cases {
		all = append(all, c.what)
		if c.passes {
			want = append(want, c.what)
		}
	}
	if diff := cmp.Diff(all, arrived(len(all))); diff != "" {
		t.Fatalf("what arrives without the table (-want +got):\n%s", diff)
	}
	table := Bound{Bindings: []Binding{own, other}}.table()
	if err := m.Do(func() error { return ruleset.Add(table) }); err != nil {
		testnet.Skip(t, err)
	}
	if diff := cmp.Diff(want, arrived(len(want))); diff != "" {
		t.Errorf("what arrives with the table (-want +got):\n%s", diff)
	}
	var counted Counters
	if err := m.Do(func() error {
		rules, err := ruleset.Read("netdev", boundTable, refused)
		for _, r := range rules {
			counted.Refused += r.Packets
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// The other link refuses as many and more. What the kernel behind a link says of itself is refused there, too.
	if least := uint64(2 * (len(all) - len(want))); counted.Refused < least {
		t.Errorf("%d refused packets are counted, want %d at least", counted.Refused, least)
	}
}

// join makes a bridge with a sender and two containers, whose links are those of bindings, and opens the other ends of
// the sender's and of the first container's. None of them has said anything, so the bridge floods.
func join(first, second string, inner *os.File) (out, in *os.File, err error) {
	h, err := link.Open()
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	bridge, err := h.AddBridge(link.Bridge{Name: "br0"})
	if err != nil {
		return nil, nil, err
	}
	for i, name := range []string{"to-sender", first, second} {
		if _, err := h.AddVeth(link.Veth{
			Name: name, Master: bridge, PeerName: fmt.Sprint("c", i), PeerNS: inner,
		}); err != nil {
			return nil, nil, err
		}
	}
	err = netns.Do(int(inner.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		var at [3]int
		for i := range at {
			l, err := h.ByName(fmt.Sprint("c", i))
			if err != nil {
				return err
			}
			if at[i] = l.Index; h.SetUp(l.Index, true) != nil {
				return fmt.Errorf("set up %s", l.Name)
			}
		}
		if out, err = sock.FramesOut(at[0]); err != nil {
			return err
		}
		if in, err = sock.Frames(at[1]); err != nil {
			return err
		}
		return sock.Promiscuous(in, at[1], true)
	})
	return out, in, err
}
