package attack_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
)

// Each attack has a description with a source and a control. If that is not the stack without its filter, it is in a
// test that exists.
func TestDescribe(t *testing.T) {
	tests, err := os.ReadFile("control_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range threat.All() {
		d := attack.Describe(a)
		if d.Summary == "" || d.Source == "" || d.Control == "" {
			t.Errorf("%s: %+v", a, d)
		}
		if d.Control == attack.Unfiltered {
			continue
		}
		_, name, _ := strings.Cut(d.Control, "(")
		if name = strings.TrimSuffix(name, ")"); !strings.Contains(string(tests), "\nfunc "+name+"(t *testing.T)") {
			t.Errorf("%s: there is no test %q with its control", a, name)
		}
	}
	if d := attack.Describe("nothing"); d != (attack.Description{}) {
		t.Errorf("an attack that there is none of is described: %+v", d)
	}
}

func TestJudge(t *testing.T) {
	of := func(a attack.Attack, arrived, sent int, missing ...string) attack.Outcome {
		return attack.Outcome{Attack: a, Family: "ipv4", Arrived: arrived, Sent: sent, Missing: missing}
	}
	lab := []attack.Outcome{
		of(threat.Ports, 0, 10), of(threat.Types, 1, 10), of(threat.Guise, 2, 4), of(threat.FromHost, 0, 2),
		of(threat.Options, 0, 8, "a datagram"), of(threat.Bypass, 0, 0), of(threat.Errors, 0, 5), of(threat.Router, 0, 4),
		of(threat.Listening, 0, 2),
		{Attack: threat.Wrapped, Family: "ipv4", Unsent: 9, Refusal: "CAP_NET_RAW"},
	}
	attacks := []attack.Attack{
		threat.Ports, threat.Types, threat.Guise, threat.FromHost, threat.Options, threat.Bypass, threat.Stray,
		threat.Wrapped, threat.Errors, threat.Router, threat.Listening,
	}
	want := []attack.Verdict{
		attack.Withstood, attack.Broken, attack.Open, attack.Closed, attack.Untold, attack.NotTried, attack.NotTried,
		attack.Unsent,
		attack.Untold,    // nothing arrives on the control
		attack.Withstood, // the control claims to withstand it itself
		attack.Withstood, // its control is another lab
	}
	target := attack.Target{Lab: proof.Lab{Filtered: true}, Claims: slices.Concat(
		threat.Withstands(threat.Ports, threat.Types, threat.Options, threat.Bypass, threat.Stray, threat.Wrapped,
			threat.Errors, threat.Router, threat.Listening),
		threat.Leaves("addresses are believed", threat.Guise),
	)}
	control := attack.Control{
		Claims: threat.Withstands(threat.Router),
		Outcomes: []attack.Outcome{
			of(threat.Ports, 10, 10), of(threat.Errors, 0, 5), of(threat.Router, 0, 4), of(threat.Listening, 0, 2),
		},
	}
	for i, r := range target.Judge(attacks, lab, &control) {
		if r.Attack != attacks[i] || r.Verdict != want[i] {
			t.Errorf("%s: %s (%s), want %s", r.Attack, r.Verdict, r.Why, want[i])
		}
		untold := slices.Contains([]attack.Verdict{attack.Untold, attack.NotTried, attack.Unsent}, r.Verdict)
		if untold != (r.Why != "") {
			t.Errorf("%s: %s: why: %q", r.Attack, r.Verdict, r.Why)
		}
		if got := len(r.NotClaimed) > 0; got != (r.Attack == threat.Guise) {
			t.Errorf("%s is not claimed because of %q", r.Attack, r.NotClaimed)
		}
		if arrived, _ := attack.Count(r.Control); (i == 0) != (arrived == 10) {
			t.Errorf("%s: %d packets arrive on the control", r.Attack, arrived)
		}
	}
}

// Each family has its own verdict if they differ. What no control shows in one family cannot be told.
func TestJudgeFamilies(t *testing.T) {
	of := func(v4, v6 attack.Outcome) []attack.Outcome {
		v4.Attack, v4.Family, v6.Attack, v6.Family = threat.Ports, "ipv4", threat.Ports, "ipv6"
		return []attack.Outcome{v4, v6}
	}
	refused, open, none := attack.Outcome{Sent: 4}, attack.Outcome{Sent: 4, Arrived: 4}, attack.Outcome{NotTried: "no IPv6"}
	for _, c := range []struct {
		lab, control []attack.Outcome
		claimed      bool
		want         attack.Verdict
		said         string
	}{
		{of(refused, refused), of(open, open), true, attack.Withstood, "claimed and held"},
		{of(refused, none), of(open, none), true, attack.Withstood, "claimed and held (IPv4), not tried (IPv6)"},
		{of(refused, open), of(open, open), true, attack.Broken, "claimed and held (IPv4), claimed and broken (IPv6)"},
		{of(refused, refused), of(open, refused), true, attack.Untold, "claimed and held (IPv4), cannot be told (IPv6)"},
		{of(open, refused), nil, false, attack.Open, "not claimed and open (IPv4), not claimed, closed (IPv6)"},
	} {
		target := attack.Target{Lab: proof.Lab{Filtered: true}}
		if c.claimed {
			target.Claims = threat.Withstands(threat.Ports)
		}
		r := target.Judge([]attack.Attack{threat.Ports}, c.lab, &attack.Control{Outcomes: c.control})[0]
		if r.Verdict != c.want || r.Text() != c.said || (r.Why == "") != (c.want != attack.Untold) {
			t.Errorf("%s, %q: %q; want %s, %q", r.Verdict, r.Text(), r.Why, c.want, c.said)
		}
	}
}

// Each family has its reason why no packet of an attack was sent: that of one does not stand for the other.
func TestJudgeIdle(t *testing.T) {
	const nowhere = "the lab has nowhere to send it"
	nothing, none := attack.Outcome{}, attack.Outcome{NotTried: "no IPv6"}
	refused := attack.Outcome{Unsent: 3, Refusal: "no CAP_NET_RAW"}
	for _, c := range []struct {
		v4, v6 attack.Outcome
		want   attack.Verdict
		why    string
	}{
		{nothing, nothing, attack.NotTried, nowhere},
		{nothing, none, attack.NotTried, nowhere + "; no IPv6"},
		{none, none, attack.NotTried, "no IPv6"},
		{refused, none, attack.Unsent, "no CAP_NET_RAW"},
		{none, refused, attack.Unsent, "no CAP_NET_RAW"},
	} {
		c.v4.Attack, c.v4.Family, c.v6.Attack, c.v6.Family = threat.Bypass, "ipv4", threat.Bypass, "ipv6"
		r := attack.Target{}.Judge([]attack.Attack{threat.Bypass}, []attack.Outcome{c.v4, c.v6}, nil)[0]
		if r.Verdict != c.want || r.Why != c.why {
			t.Errorf("%+v, %+v: %s, %q; want %s, %q", c.v4, c.v6, r.Verdict, r.Why, c.want, c.why)
		}
	}
}

// An attack that aims at several things has to reach each on the control, in one family at least.
func TestJudgeAims(t *testing.T) {
	of := func(family string, sinks, sources int) attack.Outcome {
		return attack.Outcome{
			Attack: threat.Takeover, Family: family, Sent: 8, Arrived: sinks + sources,
			Aims: map[string]attack.Tally{"sink": {Sent: 4, Arrived: sinks}, "source": {Sent: 4, Arrived: sources}},
		}
	}
	target := attack.Target{Lab: proof.Lab{Filtered: true}, Claims: threat.Withstands(threat.Takeover)}
	lab := []attack.Outcome{of("ipv4", 0, 0), of("ipv6", 0, 0)}
	for _, c := range []struct {
		control []attack.Outcome
		want    attack.Verdict
		why     string
	}{
		{[]attack.Outcome{of("ipv4", 1, 0), of("ipv6", 0, 1)}, attack.Withstood, ""},
		{[]attack.Outcome{of("ipv4", 4, 0), of("ipv6", 4, 0)}, attack.Untold, "source"},
		{[]attack.Outcome{of("ipv4", 0, 0), of("ipv6", 0, 0)}, attack.Untold, "control either"},
	} {
		r := target.Judge([]attack.Attack{threat.Takeover}, lab, &attack.Control{Outcomes: c.control})[0]
		if r.Verdict != c.want || !strings.HasSuffix(r.Why, c.why) || (r.Why == "") != (c.why == "") {
			t.Errorf("%+v: %s, %q; want %s, %q", c.control, r.Verdict, r.Why, c.want, c.why)
		}
	}
}

// What a filter withstands is held only if the attack is shown to work: on the control, which was attacked, or
// elsewhere. A network without a filter has no control.
func TestJudgeWithoutControl(t *testing.T) {
	attacks := []attack.Attack{threat.Ports, threat.Listening}
	lab := []attack.Outcome{{Attack: threat.Ports, Sent: 10}, {Attack: threat.Listening, Sent: 2}}
	for _, c := range []struct {
		name     string
		filtered bool
		control  *attack.Control
		want     attack.Verdict // of ports
	}{
		{"a filter, and no control", true, nil, attack.Untold},
		{"a filter, and nothing was sent on its control", true, &attack.Control{}, attack.Untold},
		{"a network", false, nil, attack.Withstood},
	} {
		target := attack.Target{Lab: proof.Lab{Filtered: c.filtered}, Claims: threat.Withstands(attacks...)}
		for i, want := range []attack.Verdict{c.want, attack.Withstood} {
			if r := target.Judge(attacks, lab, c.control)[i]; r.Verdict != want || (r.Why != "") != (want == attack.Untold) {
				t.Errorf("%s: %s: %s %q, want %s", c.name, r.Attack, r.Verdict, r.Why, want)
			}
		}
	}
}

// docs/security.md has a row for each attack in both tables that make security writes, none of them broken.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range threat.All() {
		if n := strings.Count(string(text), "\n| `"+string(a)+"` |"); n != 2 {
			t.Errorf("%s: %d rows, want one of networks and one of filters (make security writes them)", a, n)
		}
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") && strings.Contains(line, "✗") {
			t.Errorf("a claim is broken: %s", line)
		}
	}
}

// Each stack claims to withstand each attack, or says why not, and names no attack that does not exist.
func TestClaimsAreWhole(t *testing.T) {
	labs, _ := stacks(t)
	for _, r := range labs {
		l := r.Labs[0]
		claims := l.Stack.Claims(l.Hosts)
		for _, a := range threat.All() {
			if claimed := claims.Claimed(a); !claimed && len(claims.Why(a)) == 0 {
				t.Errorf("%s says nothing about %s", l.ID, a)
			}
		}
		for _, c := range claims {
			if !slices.Contains(threat.All(), c.Attack) || c.Withstood != (c.Why == "") || strings.HasSuffix(c.Why, ".") {
				t.Errorf("%s: %+v: want an attack that there is, and a reason without its full stop if it is not claimed", l.ID,
					c)
			}
		}
	}
}
