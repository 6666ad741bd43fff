package view_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/view"
)

// attacked is a run whose labs were attacked: one withstands what it claims to withstand or, if broken, does not. In the
// other nobody can be attacked.
func attacked(t *testing.T, broken bool) *made {
	t.Helper()
	m := start(t, []load{udprr("same-host", 1)}, "host", "bridge")
	m.measure([]load{udprr("same-host", 1)}, 7, 8, map[string]map[string]float64{"bridge": bridge()})
	guise := measure.Attack{Attack: "guise", Claimed: true, Verdict: measure.AttackWithstood, Sent: 4}
	if broken {
		guise.Verdict, guise.Arrived, guise.Holes = measure.AttackBroken, 1, []string{"ipv4: a datagram arrives at snk1"}
	}
	m.log.Attacks = []measure.Attacks{
		{Lab: "host/same-host/1", NotTried: "containers share a namespace"},
		{Lab: "bridge/same-host/1", Generation: 7, Control: "bare", Attacks: []measure.Attack{
			guise,
			{Attack: "ports", Claimed: true, Verdict: measure.AttackNotTried, Why: "there is one pair"},
			{Attack: "types", Claimed: true, Verdict: measure.AttackNotTried, Why: "there is one pair"},
			{Attack: "router", Verdict: measure.AttackOpen, Arrived: 2, Sent: 2, NotClaimed: []string{"nobody looks"}},
			{
				Attack: "wire-sniff", Wire: true, Claimed: true, Verdict: measure.AttackWithstood, Sent: 4,
				Families: []measure.AttackFamily{
					{Family: "ipv4", Verdict: measure.AttackWithstood},
					{Family: "ipv6", Verdict: measure.AttackNotTried, Why: "it has no addresses"},
				},
			},
		}},
	}
	return m
}

// Every view says how many attacks a stack withstood of those that it claims to withstand, from inside and from the
// wire, what was not tried and why, and how many got through that nobody claims to withstand.
func TestAttacks(t *testing.T) {
	for format, wants := range map[string][]string{
		"text": {
			"were made once, after the last generation",
			"inside attacks wire attacks", " 1 of 3 1 of 1 ",
			"not attacked: containers share a namespace.",
			"ports, types: not tried: there is one pair.",
			"wire-sniff: not tried (IPv6): it has no addresses.",
			"does not claim to withstand: bridge 1 (nettoll prove shows each with the reason).",
		},
		"markdown": {
			"| inside attacks | wire attacks |", "| **1 of 3** | **1 of 1** |", "not attacked: containers share a namespace.",
			"ports, types: not tried: there is one pair.",
		},
		"html": {"What came of each attack", ">bridge</th>", ">wire-sniff</th>", ">withstood (IPv4), not tried (IPv6)</td>", ">open</td>", ">not tried</td>", ">inside attacks</th>", ">1 of 3</td>", ">1 of 1</td>", "ports, types: not tried: there is one pair."},
		"jsonl": {
			`{"type":"attacks","v":3,"gen":7,"lab":"bridge/same-host/1","attacks":[{"attack":"guise","claimed":true,`,
			`"inside_attacks":"cannot be told","inside_withstood":1,"inside_claimed":3,"inside_open":1,` +
				`"wire_attacks":"holds","wire_withstood":1,"wire_claimed":1,"wire_open":0,` +
				`"attacks_untold":[{"why":"not tried: there is one pair","attacks":["ports","types"]},` +
				`{"why":"not tried (IPv6): it has no addresses","attacks":["wire-sniff"]}]`,
			`"families":[{"family":"ipv4","verdict":"withstood"},{"family":"ipv6","verdict":"not tried",`,
			`"not_attacked":"containers share a namespace"`,
		},
		"csv": {
			"claim=inside-attacks withstood=1 claimed=3 open=1", "claim=wire-attacks withstood=1 claimed=1 open=0",
		},
	} {
		said := in(t, format, attacked(t, false))
		for _, want := range wants {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q", format, want)
			}
		}
	}
}

// An attack that a stack claims to withstand and does not is said in every view, and its figures are not compared.
func TestAttackBroken(t *testing.T) {
	m := attacked(t, true)
	for _, r := range m.analysis().Rows {
		if r.Metric == r.Cell.Primary && r.Cell.Part("network") == "bridge" && (r.HasRatio || r.Verdict != measure.Leaks) {
			t.Errorf("%s: %s, with a ratio: %t", r.Cell.ID, r.Verdict, r.HasRatio)
		}
	}
	for format, wants := range map[string][]string{
		"text":     {"0 of 3: guise", "attack guise: ipv4: a datagram arrives at snk1.", "leaks"},
		"markdown": {"0 of 3: guise", "attack guise: ipv4: a datagram arrives at snk1.", "leaks"},
		"html":     {"0 of 3: guise", "attack guise: ipv4: a datagram arrives at snk1.", "leaks"},
		"jsonl":    {`"inside_attacks":"broken"`, `"verdict":"broken"`, `"leaks"`},
		"csv":      {"claim=inside-attacks withstood=0 claimed=3 open=1", ",broken,", "leaks"},
	} {
		said := in(t, format, m)
		for _, want := range wants {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q", format, want)
			}
		}
	}
}

// As JUnit, an attack is a test case: what got through is a failure if the stack claims to withstand it, and what shows
// nothing is skipped with the reason.
func TestAttacksJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := export.JUnit(&b, attacked(t, true).data()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<system-out>bridge/same-host/1: wire-sniff: ` +
			`withstood (IPv4), not tried (IPv6): it has no addresses</system-out>`,
		`<failure message="bridge/same-host/1: guise: broken: ipv4: a datagram arrives at snk1" type="broken">`,
		`<skipped message="bridge/same-host/1: ports: not tried: there is one pair" type="not tried">`,
		`<skipped message="bridge/same-host/1: router: not claimed, open: nobody looks" type="open">`,
		`<skipped message="host/same-host/1: not attacked: containers share a namespace" type="not tried">`,
		` failures="1" errors="0" `,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, &b)
		}
	}
}

// in returns a run in a format, as one line.
func in(t *testing.T, format string, m *made) string {
	t.Helper()
	var b bytes.Buffer
	if err := view.Write(&b, format, m.data(), report.Options{Width: 200}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
