package filter

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/conntrack"
)

func TestLasting(t *testing.T) {
	addr, end := netip.MustParseAddr, netip.MustParseAddrPort
	l := List{Allowed: []Rule{
		{
			Source: addr("10.1.0.2"), Sink: addr("10.1.0.3"), First: 100, Last: 109, SourceFirst: 200, SourceLast: 209,
		},
		{
			Source: addr("10.1.0.4"), Sink: addr("198.18.0.2"), First: 300, Last: 309, SourceFirst: 400, SourceLast: 409,
			Published: true,
		},
	}}
	way := func(from, to string) conntrack.Way { return conntrack.Way{Source: end(from), Destination: end(to)} }
	plain := func(protocol uint8, from, to string) conntrack.Flow {
		return conntrack.Flow{Protocol: protocol, Original: way(from, to), Reply: way(to, from), Answered: true}
	}
	asked := plain(protocolUDP, "10.1.0.2:200", "10.1.0.4:400")
	asked.Answered = false
	for _, c := range []struct {
		name string
		flow conntrack.Flow
		want string
	}{
		{name: "a pair's", flow: plain(protocolUDP, "10.1.0.2:200", "10.1.0.3:109")},
		{name: "a pair's, begun by its sink", flow: plain(protocolTCP, "10.1.0.3:100", "10.1.0.2:209")},
		{name: "an echo of a pair", flow: plain(protocolICMP, "10.1.0.2:0", "10.1.0.3:0")},
		{
			name: "a port that is not listed", flow: plain(protocolUDP, "10.1.0.2:200", "10.1.0.3:110"),
			want: "connection udp 10.1.0.2 port 200 → 10.1.0.3 port 110: still passes, and no rule allows it",
		},
		{
			name: "a source port that is not listed", flow: plain(protocolTCP, "10.1.0.2:199", "10.1.0.3:100"),
			want: "connection tcp 10.1.0.2 port 199 → 10.1.0.3 port 100: still passes, and no rule allows it",
		},
		{
			name: "two that are no pair", flow: plain(protocolICMP, "10.1.0.4:0", "10.1.0.3:0"),
			want: "connection icmp 10.1.0.4 → 10.1.0.3: still passes, and no rule allows it",
		},
		{
			name: "another protocol", flow: plain(132, "10.1.0.2:200", "10.1.0.3:100"),
			want: "connection protocol 132 10.1.0.2 port 200 → 10.1.0.3 port 100: still passes, and no rule allows it",
		},
		{name: "not answered", flow: asked},
		{name: "with a host", flow: plain(protocolUDP, "10.1.0.1:200", "10.1.0.3:1")},
		{name: "to others", flow: plain(protocolUDP, "10.1.0.2:200", "10.9.0.3:1")},
		{name: "of an encryption between hosts", flow: plain(protocolUDP, "198.18.0.1:51820", "198.18.0.2:51820")},
		{name: "translated, of a pair", flow: conntrack.Flow{
			Protocol: protocolTCP, Original: way("10.1.0.4:400", "198.18.0.2:300"),
			Reply: way("198.18.0.2:300", "198.18.0.1:400"), Answered: true,
		}},
		{
			name: "translated, of two that are no pair", flow: conntrack.Flow{
				Protocol: protocolTCP, Original: way("10.1.0.2:200", "198.18.0.1:300"), Reply: way("10.1.0.4:400", "198.18.0.1:9"),
				Answered: true,
			},
			want: "connection tcp 10.1.0.2 port 200 → 10.1.0.4 port 400: still passes, and no rule allows it",
		},
		{
			name: "an echo to a published port", flow: plain(protocolICMP, "10.1.0.4:0", "198.18.0.2:0"),
			want: "connection icmp 10.1.0.4 → 198.18.0.2: still passes, and no rule allows it",
		},
	} {
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if d := cmp.Diff(want, l.Lasting([]conntrack.Flow{c.flow, c.flow})); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}
