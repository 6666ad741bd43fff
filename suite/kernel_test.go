package suite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// A claim about what the kernel does is tried only if no process does that in the run. A plan does not know who will.
func TestKernel(t *testing.T) {
	s := find(t, "seconetbench-multi")
	for _, tt := range []struct {
		who     map[string]string // by stack
		missing string            // of claims about the kernel's
	}{
		{nil, ""},
		{map[string]string{"ipsec": "ipsec (kernel)", "wireguard": "wireguard (kernel)"}, ""},
		{
			map[string]string{"ipsec": "ipsec (kernel)", "wireguard": "wireguard (embedded, x v1)"},
			"the kernel's wireguard (here: wireguard (embedded, x v1))",
		},
		{
			map[string]string{"ipsec": "ipsec (strongSwan 5.9.8)", "wireguard": "wireguard (kernel)"},
			"the kernel's ipsec (here: ipsec (strongSwan 5.9.8))",
		},
		{map[string]string{"tinc": "tinc 1.0.36"}, ""},
	} {
		run := runOf(resolve(t, s))
		log := &measure.Log{}
		for _, c := range run.Cells {
			for part, who := range tt.who {
				if strings.Contains(c.Lab, part) {
					log.Labs = append(log.Labs, measure.LabRecord{Lab: c.Lab, Implementations: map[string]string{"encryption": who}})
				}
			}
		}
		run.Tell(log.Labs)
		var about []string
		items := s.Items(&run)[len(s.Drawings):]
		for i, c := range s.Evaluate(run, log, measure.Analyze(run, log)).Claims {
			want := ""
			if len(c.Kernel) > 0 {
				about, want = append(about, c.ID), tt.missing
			}
			if c.Tried() != (want == "") || want != "" && !cmp.Equal(items[i].Missing, []string{want}) {
				t.Errorf("%v: %s is tried: %t, and needs %q; want %q", tt.who, c.ID, c.Tried(), items[i].Missing, want)
			}
		}
		if diff := cmp.Diff([]string{"user-space", "almost-free"}, about); diff != "" {
			t.Errorf("claims about the kernel's (-want +got):\n%s", diff)
		}
	}
}
