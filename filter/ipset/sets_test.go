package ipset

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
)

func TestSet(t *testing.T) {
	a := netip.MustParseAddr
	s := Sets{HookSite: filter.HookSite{Point: network.InContainer, Inside: []filter.Inside{
		{NS: "src0", IPv4: a("10.0.0.1"), IPv6: a("fd00::1")},
	}, List: filter.List{
		Families: []string{"ipv4", "ipv6"}, Decoys: 2,
		Allowed: []filter.Rule{
			{Source: a("10.0.0.1"), Sink: a("10.0.0.2"), First: 7, Last: 8, SourceFirst: 30, SourceLast: 39},
			{Source: a("10.0.0.1"), Sink: a("10.0.0.2"), First: 8, Last: 8, SourceFirst: 30, SourceLast: 39},
			{Source: a("10.0.0.3"), Sink: a("10.0.0.2"), First: 9, Last: 9, SourceFirst: 30, SourceLast: 39},
			{Source: a("fd00::1"), Sink: a("fd00::2"), First: 7, Last: 7, SourceFirst: 30, SourceLast: 39},
		},
	}}}
	want := [][]string{
		{
			"100.64.0.0,udp:1024,100.96.0.0", "100.64.0.1,tcp:1025,100.96.0.1",
			"10.0.0.1,udp:7,10.0.0.2", "10.0.0.1,udp:8,10.0.0.2", "10.0.0.1,tcp:7,10.0.0.2", "10.0.0.1,tcp:8,10.0.0.2",
			"10.0.0.1,icmp:echo-request,10.0.0.2", "10.0.0.2,icmp:echo-reply,10.0.0.1",
		},
		{
			"2001:db8:1::1,udp:1024,2001:db8:2::1", "2001:db8:1::2,tcp:1025,2001:db8:2::2",
			"fd00::1,udp:7,fd00::2", "fd00::1,tcp:7,fd00::2", "fd00::1,icmpv6:echo-request,fd00::2",
			"fd00::2,icmpv6:echo-reply,fd00::1",
		},
	}
	places := s.Places()
	for i, p := range places {
		if diff := cmp.Diff(want[i], s.set(p).Entries); diff != "" {
			t.Errorf("set %s (-want +got):\n%s", name(p), diff)
		}
	}
	rules := map[string][]string{}
	for _, c := range s.table(places[0]).Chains {
		rules[c.Name] = c.Rules
	}
	if diff := cmp.Diff([]string{
		"-m set --match-set nettoll4 src,dst,dst -j nettoll-sending",
		"-p udp -m set --match-set nettoll4 dst,src,src -j nettoll-answering",
		"-p tcp -m tcp ! --tcp-flags SYN,ACK SYN -m set --match-set nettoll4 dst,src,src -j nettoll-answering",
	}, rules["nettoll-output"]); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"-p icmp -j ACCEPT", "-s 10.0.0.1/32 -p udp -m udp --sport 30:39 -j ACCEPT",
		"-s 10.0.0.1/32 -p tcp -m tcp --sport 30:39 -j ACCEPT",
	}, rules["nettoll-sending"]); diff != "" {
		t.Errorf("rules for what sources send (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"-d 10.0.0.1/32 -p udp -m udp --dport 30:39 -j ACCEPT", "-d 10.0.0.1/32 -p tcp -m tcp --dport 30:39 -j ACCEPT",
	}, rules["nettoll-answering"]); diff != "" {
		t.Errorf("rules for answers (-want +got):\n%s", diff)
	}
	s.List.Stateful = true
	if got := s.table(places[0]).Chains[2].Rules; len(got) != 1 ||
		got[0] != "-m conntrack --ctstate NEW -m set --match-set nettoll4 src,dst,dst -j nettoll-sending" {
		t.Errorf("stateful, the rules are %q", got)
	}
	s.List.Families = []string{"ipv6"}
	if got := s.table(places[0]).Chains[2].Rules; len(got) != 0 {
		t.Errorf("of a family that is not listed the rules are %q", got)
	}
}
