package rooted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestResolve finds files through symbolic links, which never lead out of the root directory.
func TestResolve(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run", "file"), []byte("inside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"absolute": "/run", "up": "../../run", "out": "/etc"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, path := range []string{"/run/file", "run/file", "/absolute/file", "/up/file", "/../run/file"} {
		found, err := Resolve(root, path)
		if err != nil || found != "/run/file" {
			t.Errorf("%s is %q (%v), want /run/file", path, found, err)
			continue
		}
		if text, err := os.ReadFile(Path(root, found)); err != nil || string(text) != "inside" {
			t.Errorf("%s has %q (%v), want the file below the directory", path, text, err)
		}
	}
	for _, path := range []string{"/out/passwd", "/etc/passwd", "/run/other"} {
		if found, err := Resolve(root, path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is %q (%v), want that it does not exist", path, found, err)
		}
	}
}
