package threat_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/proof/threat"
)

// A stack claims what one of its parts claims. If none does, each reason is given once.
func TestClaims(t *testing.T) {
	c := slices.Concat(
		threat.Leaves("a network passes everything", threat.Ports, threat.Guise),
		threat.Withstands(threat.Ports),
		threat.Leaves("a filter believes addresses", threat.Guise),
		threat.Leaves("a network passes everything", threat.Guise),
	)
	for _, tt := range []struct {
		of      threat.Attack
		claimed bool
		why     []string
	}{
		{threat.Ports, true, nil},
		{threat.Guise, false, []string{"a network passes everything", "a filter believes addresses"}},
		{threat.Router, false, nil},
	} {
		if got := c.Claimed(tt.of); got != tt.claimed {
			t.Errorf("%s is claimed: %t, want %t", tt.of, got, tt.claimed)
		}
		if diff := cmp.Diff(tt.why, c.Why(tt.of)); diff != "" {
			t.Errorf("reasons for %s (-want +got):\n%s", tt.of, diff)
		}
	}
}
