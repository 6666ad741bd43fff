package ovs

import "testing"

func TestLookups(t *testing.T) {
	if got, err := lookups("netdev@ovs-netdev:\n  lookups: hit:11 missed:5 lost:2\n  flows: 2\n"); err != nil ||
		got != 16 {
		t.Errorf("lookups = %d, %v, want 16", got, err)
	}
	for _, text := range []string{"", "system@ovs-system:\n  flows: 2\n", "lookups: hit:x missed:1\n"} {
		if got, err := lookups(text); err == nil {
			t.Errorf("lookups of %q = %d, want an error", text, got)
		}
	}
}
