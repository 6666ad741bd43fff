package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
