package runtime

import (
	"slices"
	"testing"
)

func TestHeld(t *testing.T) {
	if n := len(known()); n != 41 || known()[40] != "CAP_CHECKPOINT_RESTORE" || known()[12] != "CAP_NET_ADMIN" {
		t.Errorf("%d capabilities, want 41 in their order", n)
	}
	if i := slices.IndexFunc(UsualCapabilities(), func(c string) bool { return !slices.Contains(known(), c) }); i >= 0 {
		t.Errorf("%s is no capability", UsualCapabilities()[i])
	}
	// without CAP_SYS_RESOURCE, as on some virtual machines
	got := held("Name:\tx\nCapInh:\t0\nCapPrm:\t000001fffeffffff\nCapEff:\t0\n")
	if want := slices.DeleteFunc(known(), func(c string) bool { return c == "CAP_SYS_RESOURCE" }); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := held("torn"); !slices.Equal(got, known()) {
		t.Errorf("a process that says nothing holds %q", got)
	}
}
