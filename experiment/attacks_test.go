package experiment_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/proof/threat"
)

// Attacks are chosen by name, by group, all, or none, and made in the order in which all are. A setting replaces what the file
// says.
func TestChosenAttacks(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  []threat.Attack
		err   string
	}{
		{"all", experiment.Attacks(), ""},
		{"none", nil, ""},
		{"wire", threat.OnWire(), ""},
		{"[wire-sniff, inside]", append(threat.All(), threat.WireSniff), ""},
		{"[guise, ports]", []threat.Attack{threat.Ports, threat.Guise}, ""},
		{"[wire-sniff]", []threat.Attack{threat.WireSniff}, ""},
		{"guise", []threat.Attack{threat.Guise}, ""},
		{"[ports, guises]", nil, "guises"},
		{"[none, ports]", nil, `"none" stands beside other attacks`},
	} {
		e, err := experiment.Read("e.yaml", []byte("factors: {network: bridge}\nworkloads: [udp-rr]\nproof: {attacks: [takeover]}\n"),
			[]experiment.Setting{{Flag: "--attacks", Path: "proof.attacks", Value: tt.value}}, catalogue.New().Parts())
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want %q in it", tt.value, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, e.Proof.Attacks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.value, diff)
		}
	}
}
