package userns

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestObstacles(t *testing.T) {
	for _, tt := range []struct {
		name string
		root map[string]string
		want []string
		hint string
	}{
		{"a kernel that knows none of them", nil, nil, "docker run --privileged"},
		{
			"all as they should be",
			map[string]string{
				"kernel/unprivileged_userns_clone": "1\n", "user/max_user_namespaces": "96365\n",
				"kernel/apparmor_restrict_unprivileged_userns": "0\n",
			},
			nil, "docker run --privileged",
		},
		{
			"none allowed",
			map[string]string{"user/max_user_namespaces": "0\n"},
			[]string{"sysctl user.max_user_namespaces is 0"},
			"sysctl -w user.max_user_namespaces=10000",
		},
		{
			"Debian and Ubuntu at once",
			map[string]string{"kernel/unprivileged_userns_clone": "0\n", "kernel/apparmor_restrict_unprivileged_userns": "1\n"},
			[]string{"sysctl kernel.unprivileged_userns_clone is 0", "sysctl kernel.apparmor_restrict_unprivileged_userns is 1"},
			"sysctl -w kernel.unprivileged_userns_clone=1; sysctl kernel.apparmor_restrict_unprivileged_userns is 1: sysctl " +
				"-w kernel.apparmor_",
		},
		{"nonsense", map[string]string{"user/max_user_namespaces": "many"}, nil, "docker run --privileged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, value := range tt.root {
				root["proc/sys/"+path] = &fstest.MapFile{Data: []byte(value)}
			}
			var got []string
			for _, o := range Obstacles(root) {
				got = append(got, o.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("obstacles (-want +got):\n%s", diff)
			}
			if hint := Hint(root); !strings.Contains(hint, "run as root") || !strings.Contains(hint, tt.hint) {
				t.Errorf("hint %q does not say %q", hint, tt.hint)
			}
		})
	}
}

func TestOuter(t *testing.T) {
	for uidMap, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"         0      65534          1\n": false,
		"0 100000 65536\n1000 1000 1\n":      false,
		"":                                   false, // before it is written
	} {
		if got := outer(uidMap); got != want {
			t.Errorf("%q: %v, want %v", uidMap, got, want)
		}
	}
}

func TestParentOf(t *testing.T) {
	for _, c := range []struct {
		uidMap string
		uid    int
		want   int
	}{
		{"         0          0 4294967295\n", 1000, 1000},
		{"0 1000 1\n", 0, 1000},
		{"0 1000 1\n1 100000 65536\n", 5, 100004},
		{"0 1000 1\n", 1, -1},
		{"", 0, -1},
		{"nonsense\n", 0, -1},
	} {
		got, err := parent(c.uidMap, c.uid)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("parent(%q, %d) = %d, %v, want %d", c.uidMap, c.uid, got, err, c.want)
		}
	}
}

func TestHas(t *testing.T) {
	for _, c := range []struct {
		idMap        string
		first, count int
		want         bool
	}{
		{"         0          0 4294967295\n", 100_000, 65_536, true},
		{"         0       1000          1\n", 100_000, 65_536, false},
		{"0 1000 1\n1 100000 165536\n", 100_000, 65_536, true},
		{"0 1000 1\n1 100000 65536\n", 100_000, 65_536, false},
		{"0 0 165536\n", 100_000, 65_536, true},
		{"0 0 165535\n", 100_000, 65_536, false},
		{"", 0, 1, false},
		{"what is this?\n", 0, 1, false},
	} {
		if got := has(c.idMap, c.first, c.count); got != c.want {
			t.Errorf("%d users from %d on in %q: %v, want %v", c.count, c.first, c.idMap, got, c.want)
		}
	}
}
