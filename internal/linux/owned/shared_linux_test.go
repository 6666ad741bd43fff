package owned

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A file of a directory to which others may write is never written through a link that they have put there.
func TestReplace(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	need(t, os.WriteFile(outside, []byte("theirs"), 0o600))
	need(t, os.Symlink(outside, filepath.Join(dir, "file")), os.Mkdir(filepath.Join(dir, "logs"), 0o777),
		os.Symlink(outside, filepath.Join(dir, "logs", "file")))
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, s)
			return err
		}
	}
	has := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q (%v)", name, got, want, err)
		}
	}
	need(t, Replace(dir, "file", text("ours")), Append(dir, "logs/file", "a"), Append(dir, "logs/file", "b"),
		Append(dir, "more/file", "c"), Replace(dir, "pcap/file", text("d")))
	has("file", "ours")
	has("logs/file", "ab")
	has("more/file", "c")
	has("pcap/file", "d")
	failed := errors.New("no more")
	if err := Replace(dir, "file", func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
	has("file", "ours")
	if list, err := os.ReadDir(dir); err != nil || len(list) != 4 {
		t.Errorf("the directory has %v (%v), want the file and three directories", list, err)
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "theirs" {
		t.Errorf("the file outside has %q (%v)", got, err)
	}
}

// A link in the place of a directory is not followed, wherever it leads.
func TestReplaceBelowLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	need(t, os.Mkdir(filepath.Join(dir, "inside"), 0o777), os.Symlink("inside", filepath.Join(dir, "pcap")),
		os.Symlink(outside, filepath.Join(dir, "logs")))
	for _, name := range []string{"logs/file", "pcap/file"} {
		if _, other := errors.AsType[*Error](Append(dir, name, "a")); !other {
			t.Errorf("%s was written through a link", name)
		}
	}
	for _, at := range []string{outside, filepath.Join(dir, "inside")} {
		if list, err := os.ReadDir(at); err != nil || len(list) != 0 {
			t.Errorf("%s has %v (%v)", at, list, err)
		}
	}
}
