package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabRights(t *testing.T) {
	usual := Rights{Effective: "00000000a80425fb", Bounding: "00000000a80425fb", NoNewPrivileges: true}
	got := LabRights([]LabRecord{
		{Lab: "bridge"},
		{Lab: "bridge@oci", Rights: []Rights{usual}},
		{Lab: "bridge@oci", Rights: []Rights{usual}},
		{Lab: "bridge@docker", Rights: []Rights{
			{Effective: "0", Bounding: "1fffeffffff", Seccomp: 2, Filters: 1, AppArmor: "docker-default (enforce)"},
			{Effective: "x", Bounding: "x", Seccomp: 1, NoNewPrivileges: true, UserNamespace: true},
		}},
	})
	want := map[string]string{
		"bridge@oci": "14 capabilities (NET_RAW, no NET_ADMIN), no seccomp, no new privileges",
		"bridge@docker": "no capabilities, at most 40 capabilities (NET_RAW, NET_ADMIN), seccomp filter, " +
			`new privileges possible, AppArmor docker-default (enforce); others: capabilities "x", seccomp strict, ` +
			"no new privileges, user namespace",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}
