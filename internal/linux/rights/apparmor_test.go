package rights

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
)

func TestProfiles(t *testing.T) {
	sys := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(sys, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	missing := func(want string) {
		t.Helper()
		_, err := profiles(sys, "do it")
		if u, is := errors.AsType[*linux.UnsupportedError](err); !is || u.Missing != want || u.What != "do it" || u.Hint == "" {
			t.Errorf("%v, want %s to be missing", err, want)
		}
	}
	missing("AppArmor in the kernel")
	write("module/apparmor/parameters/enabled", "N\n")
	missing("AppArmor in the kernel")
	write("module/apparmor/parameters/enabled", "Y\n")
	missing("securityfs")
	write("kernel/security/apparmor/profiles", "")
	if got, err := profiles(sys, ""); err != nil || len(got) > 0 {
		t.Errorf("no profiles: %q, %v", got, err)
	}
	write("kernel/security/apparmor/profiles", "lxc-container (default) (complain)\n/usr/sbin/a b (enforce)\n")
	want := []string{"/usr/sbin/a b", "lxc-container (default)"}
	if got, err := profiles(sys, ""); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestProfileOf(t *testing.T) {
	proc := t.TempDir()
	if _, err := ProfileOf(proc, 7); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a process that does not exist: %v", err)
	}
	attr := filepath.Join(proc, "7", "attr")
	if err := os.MkdirAll(filepath.Join(attr, "apparmor"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, text, want string }{
		{"", "", ""},
		{"current", "old (enforce)\n\x00", "old"}, // before Linux 5.8
		{"apparmor/current", "unconfined\n", Unconfined},
		{"apparmor/current", "docker-default (enforce)\n", "docker-default"},
	} {
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(attr, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := ProfileOf(proc, 7); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	for label, want := range map[string]bool{"": false, "unconfined": false, "x (enforce)": true} {
		if got := (Rights{AppArmor: label}).Confined(); got != want {
			t.Errorf("%q confines: %t, want %t", label, got, want)
		}
	}
}

// What a process reports of itself is what others read of it.
func TestOwnProfile(t *testing.T) {
	own, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	of, err := ProfileOf("/proc", os.Getpid())
	if err != nil || !strings.HasPrefix(own.AppArmor, of) || (of == "") != (own.AppArmor == "") {
		t.Errorf("%q and %q, %v", own.AppArmor, of, err)
	}
}
