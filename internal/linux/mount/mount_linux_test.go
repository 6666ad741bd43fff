package mount

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestRead(t *testing.T) {
	const mounts = `25 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 25 0:27 / /run/a rw - tmpfs tmpfs rw
32 31 0:28 / /run/a/b\040c\134 rw - tmpfs tmpfs rw
33 25 0:29 / /run/ab rw - tmpfs tmpfs rw
34 25
`
	got, err := read(strings.NewReader(mounts), "/run/a")
	if want := []string{"/run/a", `/run/a/b c\`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("mounts %q, %v, want %q", got, err, want)
	}
}

// TestRemove wants a directory to go with mounts in it, also one on top of another.
func TestRemove(t *testing.T) {
	testnet.Root(t)
	dir := filepath.Join(t.TempDir(), "with blank")
	below := filepath.Join(dir, "below")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, dir} {
		if out, err := exec.Command("mount", "-t", "tmpfs", "tmpfs", at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := os.MkdirAll(below, 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mount", "-t", "tmpfs", "tmpfs", below).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for range 2 {
		if err := Remove(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it is still there")
	}
	if left, err := At(dir); err != nil || len(left) > 0 {
		t.Errorf("still mounted: %q, %v", left, err)
	}
}

// TestShowSecurity wants the kernel's security modules to be shown, without a way to change them, and the mounts of
// others to stay.
func TestShowSecurity(t *testing.T) {
	testnet.Root(t)
	if _, err := os.Stat(securityDir); err != nil {
		testnet.Lacks(t, "securityfs")
	}
	const own = "NETTOLL_TEST_MOUNTS"
	if os.Getenv(own) == "" { // not in the mounts of the machine
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("unshare", "--mount", "--propagation", "private", self, "-test.run", "^TestShowSecurity$")
		cmd.Env = append(os.Environ(), own+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	before, err := At(securityDir)
	if err != nil {
		t.Fatal(err)
	}
	theirs := func(command ...string) {
		t.Helper()
		if out, err := exec.Command(command[0], append(command[1:], securityDir)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	theirs("mount", "-t", "tmpfs", "tmpfs")
	defer theirs("umount")
	if err := HideSecurity(); err != nil {
		t.Error(err)
	}
	if err := ShowSecurity(); err != nil {
		t.Fatal(err)
	}
	if shown, err := SecurityShown(); err != nil || !shown {
		t.Errorf("shown: %t, %v", shown, err)
	}
	if err := os.Mkdir(filepath.Join(securityDir, "new"), 0o700); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a change: %v, want that it is read-only", err)
	}
	for range 2 {
		if err := HideSecurity(); err != nil {
			t.Error(err)
		}
	}
	if shown, err := SecurityShown(); err != nil || shown {
		t.Errorf("hidden, it is shown: %t, %v", shown, err)
	}
	if left, err := At(securityDir); err != nil || len(left) != len(before)+1 {
		t.Errorf("afterwards there are the mounts %q, %v, want one more than %q", left, err, before)
	}
	if err := os.Mkdir(filepath.Join(securityDir, "new"), 0o700); err != nil {
		t.Errorf("the mount of others has changed: %v", err)
	}
}
