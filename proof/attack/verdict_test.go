package attack_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
)

// Each attack has a description with a source.
func TestDescribe(t *testing.T) {
	for _, a := range attack.All() {
		if d := attack.Describe(a); d.Summary == "" || d.Source == "" {
			t.Errorf("%s: %+v", a, d)
		}
	}
}

// A lab claims what its filter is for, and every lab that its packets take their way.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		lab  proof.Lab
		a    attack.Attack
		want bool
	}{
		{proof.Lab{}, attack.Answers, true},
		{proof.Lab{}, attack.Ports, false},
		{proof.Lab{Filtered: true}, attack.Ports, true},
		{proof.Lab{Filtered: true}, attack.FromHost, false},
		{proof.Lab{Filtered: true}, attack.ToHost, true},
		{proof.Lab{Filtered: true, Inside: true}, attack.ToHost, false},
		{proof.Lab{Filtered: true}, attack.Guise, false},
		{proof.Lab{Filtered: true, Bound: true}, attack.Takeover, true},
	} {
		if got := (attack.Target{Lab: c.lab}).Claims(c.a); got != c.want {
			t.Errorf("%+v claims to withstand %s: %t, want %t", c.lab, c.a, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	of := func(a attack.Attack, arrived, sent int, missing ...string) attack.Outcome {
		return attack.Outcome{Attack: a, Family: "ipv4", Arrived: arrived, Sent: sent, Missing: missing}
	}
	lab := []attack.Outcome{
		of(attack.Ports, 0, 10), of(attack.Types, 1, 10), of(attack.Guise, 2, 4), of(attack.FromHost, 0, 2),
		of(attack.Options, 0, 8, "a datagram"), of(attack.Bypass, 0, 0),
	}
	attacks := []attack.Attack{
		attack.Ports, attack.Types, attack.Guise, attack.FromHost, attack.Options, attack.Bypass, attack.Stray,
	}
	want := []attack.Verdict{
		attack.Withstood, attack.Broken, attack.Open, attack.Closed, attack.Untold, attack.NotTried, attack.NotTried,
	}
	control := []attack.Outcome{of(attack.Ports, 10, 10)}
	for i, r := range (attack.Target{Lab: proof.Lab{Filtered: true}}).Judge(attacks, lab, control) {
		if r.Attack != attacks[i] || r.Verdict != want[i] {
			t.Errorf("%s: %s (%s), want %s", r.Attack, r.Verdict, r.Why, want[i])
		}
		if untold := r.Verdict == attack.Untold || r.Verdict == attack.NotTried; untold != (r.Why != "") {
			t.Errorf("%s: %s: why: %q", r.Attack, r.Verdict, r.Why)
		}
		if arrived, _ := attack.Count(r.Control); (i == 0) != (arrived == 10) {
			t.Errorf("%s: %d packets arrive on the control", r.Attack, arrived)
		}
	}
}

// The table of docs/security.md has each attack where it is claimed.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	claims := func(l proof.Lab, a attack.Attack) bool { return attack.Target{Lab: l}.Claims(a) }
	for _, a := range attack.All() {
		by := "none"
		switch {
		case claims(proof.Lab{}, a):
			by = "every stack"
		case claims(proof.Lab{Filtered: true, Inside: true}, a):
			by = "stacks with a filter"
		case claims(proof.Lab{Filtered: true}, a):
			by = "stacks with a filter, unless that stands inside the containers"
		case claims(proof.Lab{Filtered: true, Bound: true}, a):
			by = "stacks whose filter has `antispoof=on`"
		}
		found := false
		for line := range strings.Lines(string(text)) {
			found = found || strings.Contains(line, "`"+string(a)+"`") && strings.HasSuffix(line, "| "+by+" |\n")
		}
		if !found {
			t.Errorf("%s: no row says that it is claimed by %s", a, by)
		}
	}
}
