package process

import "testing"

func TestEndedOfNobody(t *testing.T) {
	if got := Ended(nil); got != "its exit status is not known" {
		t.Errorf("a process without a state: %q", got)
	}
}
