package iptables

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux"
)

// stateless and stateful are tables with something of everything.
func stateless() Table {
	return Allowlist{
		V6: true, Neighbours: true,
		Hooks: []Hook{
			{Name: "INPUT", Rules: []string{"-s fd00::1/128 -d fd00::2/128 -p udp -m udp --dport 7:9 -j ACCEPT"}},
			{Name: "OUTPUT", Rules: []string{
				"-s fd00::2/128 -d fd00::1/128 -p tcp -m tcp --sport 7:9 ! --tcp-flags SYN,ACK SYN -j ACCEPT",
			}},
		},
		Pairs: []Pair{{"fd00::1/128", "fd00::2/128"}},
	}.Table()
}

func stateful() Table {
	return Allowlist{
		Stateful: true, Neighbours: true,
		Hooks: []Hook{{Name: "FORWARD", Rules: []string{
			"-s 10.0.0.1/32 -d 10.0.0.2/32 -p udp -m udp --dport 7 -m conntrack --ctstate NEW -j ACCEPT",
			"-s 10.0.0.1/32 -d 10.0.0.2/32 -p icmp -m icmp --icmp-type 8 -m conntrack --ctstate NEW -j ACCEPT",
		}}},
	}.Table()
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		name  string
		table Table
		want  string
	}{
		{"stateless", stateless(), `*filter
:INPUT DROP [0:0]
:OUTPUT DROP [0:0]
:nettoll-input - [0:0]
:nettoll-output - [0:0]
:nettoll-fragments - [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 135 -m hl --hl-eq 255 -j ACCEPT
-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 136 -m hl --hl-eq 255 -j ACCEPT
-A INPUT -j nettoll-input
-A INPUT -m frag -j nettoll-fragments
-A INPUT -j DROP
-A OUTPUT -o lo -j ACCEPT
-A OUTPUT -p ipv6-icmp -m icmp6 --icmpv6-type 135 -m hl --hl-eq 255 -j ACCEPT
-A OUTPUT -p ipv6-icmp -m icmp6 --icmpv6-type 136 -m hl --hl-eq 255 -j ACCEPT
-A OUTPUT -j nettoll-output
-A OUTPUT -m frag -j nettoll-fragments
-A OUTPUT -j DROP
-A nettoll-input -s fd00::1/128 -d fd00::2/128 -p udp -m udp --dport 7:9 -j ACCEPT
-A nettoll-output -s fd00::2/128 -d fd00::1/128 -p tcp -m tcp --sport 7:9 ! --tcp-flags SYN,ACK SYN -j ACCEPT
-A nettoll-fragments -m frag --fragfirst -j RETURN
-A nettoll-fragments -s fd00::1/128 -d fd00::2/128 -j ACCEPT
-A nettoll-fragments -s fd00::2/128 -d fd00::1/128 -j ACCEPT
COMMIT
`},
		{"stateful", stateful(), `*filter
:FORWARD DROP [0:0]
:nettoll-forward - [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -j nettoll-forward
-A FORWARD -j DROP
-A nettoll-forward -s 10.0.0.1/32 -d 10.0.0.2/32 -p udp -m udp --dport 7 -m conntrack --ctstate NEW -j ACCEPT
-A nettoll-forward -s 10.0.0.1/32 -d 10.0.0.2/32 -p icmp -m icmp --icmp-type 8 -m conntrack --ctstate NEW -j ACCEPT
COMMIT
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.table.text()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			got, err := Parse(strings.NewReader(c.want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := compare(c.table, got); len(diff) > 0 {
				t.Errorf("read again it is another: %v", diff)
			}
		})
	}
}

func TestNormal(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{
			"-s 10.0.0.1/32 -d 10.0.0.2/32 -p udp -m udp --dport 7 -j ACCEPT",
			"-s 10.0.0.1 -d 10.0.0.2 -p udp --dport 7 -j ACCEPT",
		},
		{"-p 17 -j X", "-p udp -j X"},
		{"-p icmpv6 -m icmp6 --icmpv6-type 135 -j ACCEPT", "-p ipv6-icmp --icmpv6-type 135 -j ACCEPT"},
		{"-s fd00::1/128 -d fd00::/32", "-s fd00::1 -d fd00::/32"},
		{"-m conntrack --ctstate RELATED,ESTABLISHED", "-m conntrack --ctstate ESTABLISHED,RELATED"},
		{"! -s 10.0.0.1/32  -m", "! -s 10.0.0.1 -m"},
		{"-s /32/32 -d 10.0.0.1/32/32 -s fd00::1/32/128", "-s /32/32 -d 10.0.0.1/32/32 -s fd00::1/32/128"},
		{"", ""},
	} {
		if got := normal(c.rule); got != c.want {
			t.Errorf("normal(%q) = %q, want %q", c.rule, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"*filter\n:FORWARD\nCOMMIT\n", `line 2, ":FORWARD": no chain with a policy`},
		{"*filter\n:A - [0:0]\n:A - [0:0]\n", `line 3, ":A - [0:0]": a second chain of that name`},
		{"*filter\n-A FORWARD -j DROP\n", `line 2, "-A FORWARD -j DROP": no rule of a chain that was named`},
		{"*filter\n:A - [0:0]\nnonsense\n", `line 3, "nonsense": no rule`},
		{"*nat\n:A\nnonsense\nCOMMIT\n# nothing\n", ""},
	} {
		_, err := Parse(strings.NewReader(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("Parse(%q) = %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(stateless().text())
	f.Add(stateful().text())
	f.Add("*filter\n:A - [0:0]\n-A A -m\n-A A\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, c := range table.Chains {
			for _, r := range c.Rules {
				if again := normal(r); normal(again) != again {
					t.Errorf("normal(%q) = %q, and of that %q", r, again, normal(again))
				}
			}
		}
		if diff := compare(Table{}, Table{}); len(diff) > 0 {
			t.Error(diff)
		}
		_, _ = ParseCounters(strings.NewReader(text), "FORWARD")
	})
}

func TestCounters(t *testing.T) {
	for _, c := range []struct {
		text string
		want Counters
		err  string
	}{
		{`-P FORWARD DROP -c 0 0
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -c 100 9000 -j ACCEPT
-A FORWARD -c 12 80 -j nettoll-forward
-A FORWARD -c 2 30 -j DROP
`, Counters{110, 2}, ""},
		{"-A FORWARD -j nettoll-forward -c 12 80\n-A FORWARD -j DROP -c 12 80", Counters{0, 12}, ""},
		{"-P FORWARD DROP -c 0 0\n", Counters{}, "counters of chain FORWARD: its rules are not there"},
		{"-A FORWARD -c x 80 -j nettoll-forward", Counters{}, `"-A FORWARD -c x 80 -j nettoll-forward"`},
	} {
		got, err := ParseCounters(strings.NewReader(c.text), "FORWARD")
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("ParseCounters(%q) = %v, %v, want %v, %q", c.text, got, err, c.want, c.err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Setenv("PATH", "")
	u, ok := errors.AsType[*linux.UnsupportedError](Check(Legacy))
	if !ok || u.Missing != `program "iptables-legacy"` || !strings.Contains(u.Hint, "use variant nft") {
		t.Errorf("Check without programs = %v", u)
	}
}
