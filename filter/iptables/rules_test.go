package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
)

// site has two pairs, one of each family, the first at two ranges of ports.
func site(point network.Point, change func(*filter.List)) Rules {
	a := netip.MustParseAddr
	r := Rules{Variant: "nft", Hooked: filter.Hooked{Point: point, List: filter.List{
		Families: []string{"ipv4", "ipv6"},
		Allowed: []filter.Rule{
			{Source: a("10.0.0.1"), Sink: a("10.0.0.2"), First: 7, Last: 9},
			{Source: a("10.0.0.1"), Sink: a("10.0.0.2"), First: 80, Last: 80},
			{Source: a("fd00::1"), Sink: a("fd00::2"), First: 7, Last: 9},
		},
	}}}
	if point == network.InContainer {
		r.Inside = []filter.Inside{{NS: "src0", IPv4: a("10.0.0.1"), IPv6: a("fd00::1")}, {NS: "snk0", IPv4: a("10.0.0.2"), IPv6: a("fd00::2")}}
	}
	if change != nil {
		change(&r.List)
	}
	return r
}

// own says what stands in the chains of the filter, a line each, the namespace before it.
func own(r Rules) string {
	var b strings.Builder
	for _, p := range r.Places() {
		for _, c := range r.table(p).Chains {
			for _, rule := range c.Rules {
				if c.Policy == "" {
					fmt.Fprintf(&b, "%s %s %s\n", p.NS, strings.TrimPrefix(c.Name, "nettoll-"), strings.NewReplacer(" -m udp", "", " -m tcp", "", " -j ACCEPT", "").Replace(rule))
				}
			}
		}
	}
	return b.String()
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Rules
		want string
	}{
		{"forward, stateless, fillers before", site(network.AtForward, func(l *filter.List) { l.Families, l.Allowed, l.Fillers = []string{"ipv4"}, l.Allowed[:2], 2 }), `
 forward -s 100.64.0.0/32 -d 100.96.0.0/32 -p udp --dport 1024
 forward -s 100.64.0.1/32 -d 100.96.0.1/32 -p tcp --dport 1025
 forward -s 10.0.0.1/32 -d 10.0.0.2/32 -p udp --dport 7:9
 forward -s 10.0.0.1/32 -d 10.0.0.2/32 -p tcp --dport 7:9
 forward -s 10.0.0.2/32 -d 10.0.0.1/32 -p udp --sport 7:9
 forward -s 10.0.0.2/32 -d 10.0.0.1/32 -p tcp --sport 7:9 ! --tcp-flags SYN,ACK SYN
 forward -s 10.0.0.1/32 -d 10.0.0.2/32 -p udp --dport 80
 forward -s 10.0.0.1/32 -d 10.0.0.2/32 -p tcp --dport 80
 forward -s 10.0.0.2/32 -d 10.0.0.1/32 -p udp --sport 80
 forward -s 10.0.0.2/32 -d 10.0.0.1/32 -p tcp --sport 80 ! --tcp-flags SYN,ACK SYN
 forward -s 10.0.0.1/32 -d 10.0.0.2/32 -p icmp -m icmp --icmp-type 8
 forward -s 10.0.0.2/32 -d 10.0.0.1/32 -p icmp -m icmp --icmp-type 0
 fragments -s 10.0.0.1/32 -d 10.0.0.2/32
 fragments -s 10.0.0.2/32 -d 10.0.0.1/32
 fragments -m frag --fragfirst -j RETURN
`},
		{"bridge, stateful, fillers after", site(network.AtBridge, func(l *filter.List) { l.Allowed, l.Stateful, l.Fillers, l.After = l.Allowed[2:], true, 1, true }), `
 forward -s 100.64.0.0/32 -d 100.96.0.0/32 -p udp --dport 1024 -m conntrack --ctstate NEW
 forward -s fd00::1/128 -d fd00::2/128 -p udp --dport 7:9 -m conntrack --ctstate NEW
 forward -s fd00::1/128 -d fd00::2/128 -p tcp --dport 7:9 -m conntrack --ctstate NEW
 forward -s fd00::1/128 -d fd00::2/128 -p ipv6-icmp -m icmp6 --icmpv6-type 128 -m conntrack --ctstate NEW
 forward -s 2001:db8:1::1/128 -d 2001:db8:2::1/128 -p udp --dport 1024 -m conntrack --ctstate NEW
`},
		{"container, stateless", site(network.InContainer, func(l *filter.List) { l.Allowed = l.Allowed[1:] }), `
src0 input -s 10.0.0.2/32 -d 10.0.0.1/32 -p udp --sport 80
src0 input -s 10.0.0.2/32 -d 10.0.0.1/32 -p tcp --sport 80 ! --tcp-flags SYN,ACK SYN
src0 input -s 10.0.0.2/32 -d 10.0.0.1/32 -p icmp -m icmp --icmp-type 0
src0 output -s 10.0.0.1/32 -d 10.0.0.2/32 -p udp --dport 80
src0 output -s 10.0.0.1/32 -d 10.0.0.2/32 -p tcp --dport 80
src0 output -s 10.0.0.1/32 -d 10.0.0.2/32 -p icmp -m icmp --icmp-type 8
src0 fragments -s 10.0.0.1/32 -d 10.0.0.2/32
src0 fragments -s 10.0.0.2/32 -d 10.0.0.1/32
snk0 input -s 10.0.0.1/32 -d 10.0.0.2/32 -p udp --dport 80
snk0 input -s 10.0.0.1/32 -d 10.0.0.2/32 -p tcp --dport 80
snk0 input -s 10.0.0.1/32 -d 10.0.0.2/32 -p icmp -m icmp --icmp-type 8
snk0 output -s 10.0.0.2/32 -d 10.0.0.1/32 -p udp --sport 80
snk0 output -s 10.0.0.2/32 -d 10.0.0.1/32 -p tcp --sport 80 ! --tcp-flags SYN,ACK SYN
snk0 output -s 10.0.0.2/32 -d 10.0.0.1/32 -p icmp -m icmp --icmp-type 0
snk0 fragments -s 10.0.0.1/32 -d 10.0.0.2/32
snk0 fragments -s 10.0.0.2/32 -d 10.0.0.1/32
src0 input -s fd00::2/128 -d fd00::1/128 -p udp --sport 7:9
src0 input -s fd00::2/128 -d fd00::1/128 -p tcp --sport 7:9 ! --tcp-flags SYN,ACK SYN
src0 input -s fd00::2/128 -d fd00::1/128 -p ipv6-icmp -m icmp6 --icmpv6-type 129
src0 output -s fd00::1/128 -d fd00::2/128 -p udp --dport 7:9
src0 output -s fd00::1/128 -d fd00::2/128 -p tcp --dport 7:9
src0 output -s fd00::1/128 -d fd00::2/128 -p ipv6-icmp -m icmp6 --icmpv6-type 128
src0 fragments -m frag --fragfirst -j RETURN
src0 fragments -s fd00::1/128 -d fd00::2/128
src0 fragments -s fd00::2/128 -d fd00::1/128
snk0 input -s fd00::1/128 -d fd00::2/128 -p udp --dport 7:9
snk0 input -s fd00::1/128 -d fd00::2/128 -p tcp --dport 7:9
snk0 input -s fd00::1/128 -d fd00::2/128 -p ipv6-icmp -m icmp6 --icmpv6-type 128
snk0 output -s fd00::2/128 -d fd00::1/128 -p udp --sport 7:9
snk0 output -s fd00::2/128 -d fd00::1/128 -p tcp --sport 7:9 ! --tcp-flags SYN,ACK SYN
snk0 output -s fd00::2/128 -d fd00::1/128 -p ipv6-icmp -m icmp6 --icmpv6-type 129
snk0 fragments -m frag --fragfirst -j RETURN
snk0 fragments -s fd00::1/128 -d fd00::2/128
snk0 fragments -s fd00::2/128 -d fd00::1/128
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), own(c.r)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}
