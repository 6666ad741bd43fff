package nft

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// translation returns a table with something of everything.
func translation() Table {
	p, a := netip.MustParsePrefix, netip.MustParseAddr
	return Table{
		Name: "t",
		Maps: []Map{
			{Name: "four", Entries: []Entry{
				{20000, 20009, a("10.1.1.0")}, {20010, 20019, a("10.1.1.1")}, {1, 1, a("10.1.1.2")}, {65535, 65535, a("10.1.1.3")},
			}},
			{Name: "six", IPv6: true, Entries: []Entry{{20000, 20009, a("fd00::1")}, {60000, 65535, a("fd00::2")}}},
			{Name: "none"},
		},
		Chains: []Chain{
			{Name: "in", Type: "nat", Hook: "prerouting", Priority: -100, Rules: []Rule{
				{Destination: p("198.18.0.1/32"), Protocol: "udp", DNAT: "four"},
				{Source: p("10.0.0.0/13"), Destination: p("198.18.0.1/32"), Protocol: "tcp", DNAT: "four"},
				{Destination: p("fd00:198:18::1/128"), Protocol: "tcp", DNAT: "six"},
			}},
			{Name: "out", Type: "nat", Hook: "postrouting", Priority: 100, Rules: []Rule{
				{Source: p("10.1.0.0/16"), SNAT: a("198.18.0.1")},
				{Source: p("fd00:10:1::/61"), Protocol: "udp", SNAT: a("fd00:198:18::1")},
				{Source: p("0.0.0.0/0"), SNAT: a("198.18.0.1")},
			}},
		},
	}
}

func TestRuleString(t *testing.T) {
	var got []string
	for _, c := range translation().Chains {
		for _, r := range c.Rules {
			got = append(got, r.String())
		}
	}
	want := []string{
		"ip daddr 198.18.0.1 dnat ip to udp dport map @four",
		"ip saddr 10.0.0.0/13 ip daddr 198.18.0.1 dnat ip to tcp dport map @four",
		"ip6 daddr fd00:198:18::1 dnat ip6 to tcp dport map @six",
		"ip saddr 10.1.0.0/16 snat ip to 198.18.0.1",
		"ip6 saddr fd00:10:1::/61 meta l4proto udp snat ip6 to fd00:198:18::1",
		"ip saddr 0.0.0.0/0 snat ip to 198.18.0.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	six := netip.MustParseAddr("fd00::1")
	for _, c := range []struct {
		name   string
		change func(*Table)
		want   string
	}{
		{"right", func(*Table) {}, ""},
		{"no name", func(t *Table) { t.Name = "" }, "a table without a name"},
		{"overlap", func(t *Table) {
			t.Maps[0].Entries[1].First = 20009
		}, `map "four": "20009-20019 : 10.1.1.1" overlaps "20000-20009 : 10.1.1.0"`},
		{"range of none", func(t *Table) { t.Maps[0].Entries[0].Last = 1 }, `"20000-1 : 10.1.1.0" is not a port range`},
		{"family of an entry", func(t *Table) { t.Maps[0].Entries[0].To = six }, `"20000-20009 : fd00::1" is not a port range`},
		{"two families", func(t *Table) {
			t.Chains[1].Rules[0].SNAT = six
		}, `rule "ip saddr 10.1.0.0/16 snat ip6 to fd00::1" of chain "out": addresses of two families`},
		{"protocol", func(t *Table) { t.Chains[0].Rules[0].Protocol = "icmp" }, `protocol "icmp" (known: udp, tcp)`},
		{"no action", func(t *Table) { t.Chains[0].Rules[0].DNAT = "" }, "exactly one of dnat and snat"},
		{"two actions", func(t *Table) { t.Chains[1].Rules[0].DNAT = "four" }, "exactly one of dnat and snat"},
		{"no protocol", func(t *Table) { t.Chains[0].Rules[0].Protocol = "" }, "wants a protocol"},
		{"no map", func(t *Table) { t.Chains[0].Rules[0].DNAT = "five" }, `no map "five" of its family`},
		{"map of the other family", func(t *Table) { t.Chains[0].Rules[0].DNAT = "six" }, `no map "six" of its family`},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := translation()
			c.change(&table)
			err := table.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
}
