package golden

import (
	"fmt"
	"strings"
	"testing"
)

// recorder is a test that records its failures.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.said = append(r.said, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...) }

// A text equal to the written one passes. A different text, or one that was never written, fails the test.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	r := &recorder{TB: t}
	compare(r, dir, "a plan, of host 1", "one\ntwo\n", true)
	compare(r, dir, "a plan: of host 1", "one\ntwo\n", false)
	if len(r.said) > 0 {
		t.Fatalf("the same text: %q", r.said)
	}
	compare(r, dir, "a plan, of host 1", "one\nthree\n", false)
	if len(r.said) != 1 || !strings.Contains(r.said[0], "a-plan-of-host-1.golden (-want +got)") ||
		!strings.Contains(r.said[0], "three") {
		t.Errorf("another text: %q", r.said)
	}
	r.said = nil
	compare(r, dir, "another", "", false)
	if len(r.said) == 0 || !strings.Contains(r.said[0], "go test -update writes it") {
		t.Errorf("no file: %q", r.said)
	}
}
