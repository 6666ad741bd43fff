package measure_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// attacks are those on a lab that withstands one of two attacks from inside that it claims to withstand.
func attacks(second measure.AttackVerdict) measure.Attacks {
	return measure.Attacks{Lab: "bridge+nftables", Generation: 5, Took: 1.5, Attacks: []measure.Attack{
		{Attack: "ports", Claimed: true, Verdict: measure.AttackWithstood, Sent: 9, ControlArrived: 8, ControlSent: 9},
		{
			Attack: "guise", Claimed: true, Verdict: second, Arrived: 2, Sent: 4, Holes: []string{"ipv4: it arrives"},
			Why: map[bool]string{true: "no neighbour"}[second == measure.AttackNotTried],
		},
		{Attack: "router", Verdict: measure.AttackOpen, Arrived: 1, Sent: 1, NotClaimed: []string{"nobody looks"}},
		{Attack: "wire-sniff", Wire: true, Verdict: measure.AttackNotTried, Why: "one host"},
		{Attack: "wire-flip", Wire: true, Verdict: measure.AttackNotTried, Why: "one host"},
	}}
}

// Attacks count by side. What was not tried is said once for each reason, and what got through by what arrived.
func TestAttacks(t *testing.T) {
	for _, tt := range []struct {
		of     measure.Attacks
		inside measure.Withstood
		claims [2]measure.Held // from inside, from the wire
		untold []measure.Untold
		holes  []string
	}{
		{
			attacks(measure.AttackWithstood),
			measure.Withstood{Made: 3, Tried: 3, Claimed: 2, Held: 2, Open: 1},
			[2]measure.Held{measure.HeldAlways, measure.NotProved},
			[]measure.Untold{{Why: "not tried: one host", Attacks: []string{"wire-sniff", "wire-flip"}}},
			nil,
		},
		{
			attacks(measure.AttackBroken),
			measure.Withstood{
				Made: 3, Tried: 3, Claimed: 2, Held: 1, Broken: 1, Open: 1, Names: []string{"guise"},
			},
			[2]measure.Held{measure.HeldNot, measure.NotProved},
			[]measure.Untold{{Why: "not tried: one host", Attacks: []string{"wire-sniff", "wire-flip"}}},
			[]string{"guise: ipv4: it arrives"},
		},
		{
			attacks(measure.AttackNotTried),
			measure.Withstood{Made: 3, Tried: 2, Claimed: 2, Held: 1, Open: 1},
			[2]measure.Held{measure.HeldUntold, measure.NotProved},
			[]measure.Untold{
				{Why: "not tried: no neighbour", Attacks: []string{"guise"}},
				{Why: "not tried: one host", Attacks: []string{"wire-sniff", "wire-flip"}},
			},
			nil,
		},
		{
			measure.Attacks{Lab: "bridge+tinc", NoControl: "no room", Attacks: []measure.Attack{
				{Attack: "wire-replay", Wire: true, Claimed: true, Verdict: measure.AttackWithstood, Sent: 1, Why: "no new keys"},
			}},
			measure.Withstood{},
			[2]measure.Held{measure.NotProved, measure.HeldAlways},
			[]measure.Untold{
				{Why: "withstood: no new keys", Attacks: []string{"wire-replay"}}, {Why: "the control was not attacked: no room"},
			},
			nil,
		},
		{
			measure.Attacks{Lab: "cni", Attacks: []measure.Attack{{
				Attack: "guise", Claimed: true, Verdict: measure.AttackWithstood, Sent: 1, Families: []measure.AttackFamily{
					{Family: "ipv4", Verdict: measure.AttackWithstood},
					{Family: "ipv6", Verdict: measure.AttackNotTried, Why: "no addresses"},
				},
			}}},
			measure.Withstood{Made: 1, Tried: 1, Claimed: 1, Held: 1},
			[2]measure.Held{measure.HeldAlways, measure.NotProved},
			[]measure.Untold{{Why: "not tried (IPv6): no addresses", Attacks: []string{"guise"}}},
			nil,
		},
		{
			measure.Attacks{Lab: "host", NotTried: "they share a namespace"},
			measure.Withstood{},
			[2]measure.Held{measure.NotProved, measure.NotProved},
			nil, nil,
		},
	} {
		a := measure.Analyze(measure.Run{}, &measure.Log{Attacks: []measure.Attacks{tt.of}})
		list := a.Proved()
		if len(list) != 1 {
			t.Fatalf("%d labs, want 1", len(list))
		}
		p := list[0]
		if diff := cmp.Diff(tt.inside, p.Inside); diff != "" {
			t.Errorf("from inside (-want +got):\n%s", diff)
		}
		if got := [2]measure.Held{p.Inside.Claims(), p.Wire.Claims()}; got != tt.claims {
			t.Errorf("claims: %q, want %q", got, tt.claims)
		}
		if diff := cmp.Diff(tt.untold, p.Untold); diff != "" {
			t.Errorf("untold (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(tt.holes, p.Holes); diff != "" {
			t.Errorf("holes (-want +got):\n%s", diff)
		}
		if p.NotAttacked != tt.of.NotTried || p.Attacked != (tt.of.NotTried == "") {
			t.Errorf("attacked %t, not attacked because of %q", p.Attacked, p.NotAttacked)
		}
	}
}

// A record of attacks is read as it was written. What stands behind the last whole generation goes when a run is
// resumed from there.
func TestAttacksRecord(t *testing.T) {
	var b bytes.Buffer
	w := measure.NewWriter(&b)
	want := attacks(measure.AttackBroken)
	for _, r := range []measure.Record{measure.Generation{Generation: 5, Blocks: 1}, nil, want} {
		write := w.Sum
		if r != nil {
			write = func() error { return w.Write(r) }
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sum(); err != nil {
		t.Fatal(err)
	}
	log, problems, err := measure.Read(&b)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	want.Type, want.V = "attacks", measure.Version
	if diff := cmp.Diff([]measure.Attacks{want}, log.Attacks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	log.Back()
	if len(log.Generations) != 1 || len(log.Attacks) != 0 {
		t.Errorf("%d generations and %d records of attacks are left, want 1 and 0", len(log.Generations), len(log.Attacks))
	}
}
