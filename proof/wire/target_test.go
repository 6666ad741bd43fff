package wire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
	"github.com/nettoll/nettoll/proof/wire"
)

// Every attack is explained, with its source and its control, and none has the name of one from inside.
func TestDescriptions(t *testing.T) {
	for _, a := range wire.All() {
		d := wire.Describe(a)
		if !strings.HasPrefix(d.Summary, "on the wire: ") || strings.HasSuffix(d.Summary, ".") || d.Source == "" ||
			d.Control == "" {
			t.Errorf("%s is explained by %+v", a, d)
		}
		if slices.Contains(attack.All(), a) {
			t.Errorf("two attacks are called %s", a)
		}
	}
}

// A verdict follows from what is claimed, from what arrived in the lab and on its control, and from what was not tried.
func TestJudge(t *testing.T) {
	outcome := func(arrived int, missing ...string) wire.Outcomes {
		return wire.Outcomes{List: []attack.Outcome{
			{Attack: wire.Flip, Family: "ipv4", Sent: 9, Arrived: arrived, Missing: missing},
		}}
	}
	works, never := outcome(9), outcome(0)
	left := outcome(0)
	left.NotTried = map[attack.Attack]string{wire.Flip: "half of it"}
	for _, tt := range []struct {
		name    string
		guards  wire.Guards
		lab     wire.Outcomes
		control *wire.Outcomes
		want    attack.Verdict
		why     string
	}{
		{"claimed, and it holds", wire.Guards{Authentic: true}, outcome(0), &works, attack.Withstood, ""},
		{"claimed, and broken", wire.Guards{Authentic: true}, outcome(1), &works, attack.Broken, ""},
		{"not claimed, and open", wire.Guards{Hidden: true, Once: true, Exclusive: true}, outcome(1), nil, attack.Open, ""},
		{"not claimed, and closed", wire.Guards{}, outcome(0), nil, attack.Closed, ""},
		{
			"the control refuses it too",
			wire.Guards{Authentic: true},
			outcome(0), &never, attack.Untold,
			"it does not succeed on the control either",
		},
		{
			"what must arrive does not",
			wire.Guards{Authentic: true},
			outcome(0, "a packet"), &works, attack.Untold,
			"allowed, and does not arrive either: a packet",
		},
		{"a part was not tried", wire.Guards{Authentic: true}, left, &works, attack.Withstood, "half of it"},
		{
			"nothing was tried",
			wire.Guards{Authentic: true},
			wire.Outcomes{NotTried: map[attack.Attack]string{wire.Flip: "no right"}},
			&works, attack.NotTried, "no right",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := wire.Target{Guards: tt.guards}.Judge([]attack.Attack{wire.Flip}, tt.lab, tt.control)[0]
			if r.Verdict != tt.want || r.Why != tt.why || r.Claimed != tt.guards.Authentic {
				t.Errorf("%s, %q, claimed: %t; want %s, %q", r.Verdict, r.Why, r.Claimed, tt.want, tt.why)
			}
		})
	}
}

// What a tunnel claims holds although its control, which has the tunnel too, withstands it as well. Nobody else has to
// say why an attack is open.
func TestJudgeTunnels(t *testing.T) {
	outcome := func(arrived int) wire.Outcomes {
		return wire.Outcomes{List: []attack.Outcome{{Attack: wire.Stranger, Family: "ipv4", Sent: 9, Arrived: arrived}}}
	}
	withstood := wire.Target{Claims: threat.Withstands(wire.Stranger)}
	open := wire.Target{Claims: threat.Leaves("it takes all", wire.Stranger)}
	never := outcome(0)
	for _, tt := range []struct {
		name    string
		target  wire.Target
		lab     wire.Outcomes
		control *wire.Outcomes
		want    attack.Verdict
		not     []string
	}{
		{"claimed, without a control", withstood, outcome(0), nil, attack.Withstood, nil},
		{"claimed, and by the control too", withstood, outcome(0), &never, attack.Withstood, nil},
		{"claimed, and broken", withstood, outcome(1), &never, attack.Broken, nil},
		{"not claimed, and open", open, outcome(1), nil, attack.Open, []string{"it takes all"}},
		{"not claimed, and closed", open, outcome(0), nil, attack.Closed, []string{"it takes all"}},
		{
			"claimed by an encryption",
			wire.Target{Guards: wire.Guards{Authentic: true}, Claims: open.Claims},
			outcome(0), &never, attack.Untold, nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.target.Judge([]attack.Attack{wire.Stranger}, tt.lab, tt.control)[0]
			if r.Verdict != tt.want || !slices.Equal(r.NotClaimed, tt.not) {
				t.Errorf("%s, not claimed: %q; want %s, %q", r.Verdict, r.NotClaimed, tt.want, tt.not)
			}
		})
	}
}

// Nothing of a lab of one host passes an underlay: no attack is tried.
func TestOneHost(t *testing.T) {
	one := wire.Target{Lab: proof.Lab{
		Hosts: []proof.Host{{Name: "host1", Containers: []proof.Container{{Name: "src0"}, {Name: "snk0"}}}},
		Pairs: []proof.Pair{{Source: "src0", Sink: "snk0"}}, Families: []string{"ipv4"},
	}}
	out, err := wire.Run(t.Context(), one, wire.All())
	if err != nil || len(out.List) > 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, r := range one.Judge(wire.All(), out, nil) {
		if r.Verdict != attack.NotTried || r.Why != wire.ErrNoWire.Error() {
			t.Errorf("%s: %s, %q", r.Attack, r.Verdict, r.Why)
		}
	}
}
