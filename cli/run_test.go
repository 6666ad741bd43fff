package cli

import (
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// A run in which a proof failed, or in which an attack got through that a stack claims to withstand, ends with the status
// for that. What nobody claims changes nothing.
func TestRefuted(t *testing.T) {
	attacks := func(v measure.AttackVerdict) measure.Log {
		return measure.Log{
			Proofs:  []measure.Proof{{OK: true}},
			Attacks: []measure.Attacks{{NotTried: "nobody can be"}, {Attacks: []measure.Attack{{Attack: "guise", Verdict: v}}}},
		}
	}
	for _, c := range []struct {
		log  measure.Log
		want bool
	}{
		{measure.Log{Proofs: []measure.Proof{{OK: true}, {}}}, true},
		{attacks(measure.AttackBroken), true},
		{attacks(measure.AttackOpen), false},
		{attacks(measure.AttackUntold), false},
	} {
		if got := refuted(&c.log); got != c.want {
			t.Errorf("%+v: refuted %t, want %t", c.log, got, c.want)
		}
	}
}

// The command becomes a comment of one line above the experiment, but below the line that editors read.
func TestWithCommand(t *testing.T) {
	args := []string{"run", "--network", "nat,ovs(datapath=kernel)", "--set", "a=\n b"}
	const said = "# measured by: nettoll run --network 'nat,ovs(datapath=kernel)' --set 'a= b'\n"
	for source, want := range map[string]string{
		"":                  "",
		"name: x\n":         said + "name: x\n",
		"# a comment\na: b": said + "# a comment\na: b",
		"# yaml-language-server: $schema=x\nname: x\n": "# yaml-language-server: $schema=x\n" + said + "name: x\n",
	} {
		if got := withCommand(source, args); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
