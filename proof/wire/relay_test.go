package wire

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/packet"
)

// TestOurs wants a network card to be no port of the underlay: frames would leave by it.
func TestOurs(t *testing.T) {
	for kind, foreign := range map[string]bool{"device": true, "veth": false, "tuntap": false} {
		err := ours(link.Surveyed{Link: link.Link{Name: "eth0", Type: kind}})
		if errors.Is(err, attack.ErrForeign) != foreign {
			t.Errorf("a port of type %q: %v, want it to be foreign: %t", kind, err, foreign)
		}
	}
}

// TestMessages wants messages of a key exchange to be counted, and neither the pair's packets, nor what keeps a tunnel
// alive, nor what hosts ask for neighbours with.
func TestMessages(t *testing.T) {
	one, two := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	datagram := func(of netip.Addr, bytes int) []byte {
		kind := uint16(packet.TypeIPv4)
		if of.Is6() {
			kind = packet.TypeIPv6
		}
		ends := netip.AddrPortFrom(of, 51820)
		p := packet.Datagram(ends, ends, string(make([]byte, bytes)))
		return packet.Frame(two, one, kind, packet.IP(of, of, packet.UDP, 64, p))
	}
	asks := packet.Frame(two, one, packet.TypeIPv6, packet.IP(v6, v6, packet.ICMPv6, 255, make([]byte, 99)))
	const pair = 400
	for name, tt := range map[string]struct {
		frame []byte
		want  int
	}{
		"WireGuard's initiation":           {datagram(v4, 148), 1},
		"WireGuard's response":             {datagram(v4, 92), 1},
		"its response over IPv6":           {datagram(v6, 92), 1},
		"WireGuard's keepalive":            {datagram(v4, 32), 0},
		"the pair's":                       {datagram(v4, pair-ethernet-header4-udp), 0},
		"one that asks for a neighbour":    {asks, 0},
		"as long, but of another protocol": {packet.Frame(two, one, 0x88e5, make([]byte, 200)), 0},
	} {
		r := relay{learned: map[[6]byte]*port{}, lengths: map[int]int{}}
		if r.pass(nil, tt.frame); r.others(pair) != tt.want {
			t.Errorf("%s, %d bytes: %d messages, want %d", name, len(tt.frame), r.others(pair), tt.want)
		}
	}
}
