package rights

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	if n := len(Names()); n != 41 || Names()[40] != "CAP_CHECKPOINT_RESTORE" || Names()[12] != "CAP_NET_ADMIN" {
		t.Errorf("%d capabilities, want 41 in their order", n)
	}
	want := []string{"CAP_CHOWN", "CAP_NET_RAW", "CAP_41"}
	if got := List(1 | 1<<13 | 1<<41); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParse(t *testing.T) {
	const status = "Name:\tx\nCapInh:\t0\nCapPrm:\t000001fffeffffff\nCapEff:\t00000000a80425fb\nCapBnd:\t00000000a80425ff\n" +
		"NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n"
	const users = "         0          0 4294967295\n"
	want := Rights{
		Effective: 0xa80425fb, Bounding: 0xa80425ff, Seccomp: 2, Filters: 3, NoNewPrivileges: true,
		AppArmor: "docker-default (enforce)",
	}
	if got, err := parse(status, users, "docker-default (enforce)"); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	old, _, _ := strings.Cut(status, "Seccomp_filters")
	want.Filters, want.AppArmor, want.UserNamespace = 0, "", true
	if got, err := parse(old, "0 100000 65536\n", ""); err != nil || got != want {
		t.Errorf("in a user namespace, without AppArmor: %+v, %v; want %+v", got, err, want)
	}
	for _, torn := range []string{"", strings.Replace(status, "CapEff:\t0", "CapEff:\tx", 1)} {
		if got, err := parse(torn, users, ""); err == nil {
			t.Errorf("%q is read as %+v", torn, got)
		}
	}
	if set, err := permitted(status); err != nil || set != 0x1fffeffffff {
		t.Errorf("permitted: %x, %v", set, err)
	}
	if _, err := permitted("torn"); err == nil {
		t.Error("a process that says nothing is permitted something")
	}
}
