package report

import (
	"fmt"
	"strings"
	"testing"
)

// The part about the method says which share of the measuring time proofs took, if that is known.
func TestProvingShare(t *testing.T) {
	for proving, want := range map[float64]string{0: "", 0.041: "Proofs and audits took 4.1 % of the measuring time."} {
		v := &Reading{}
		v.Analysis.Proving = proving
		if got := fmt.Sprint(v.methodPart().Blocks); strings.Contains(got, "Proofs and audits") != (want != "") ||
			!strings.Contains(got, want) {
			t.Errorf("%g: %s, want %q", proving, got, want)
		}
	}
}
