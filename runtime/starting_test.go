package runtime

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Whoever copies a program at the same time gets the same file: a runtime that has opened it can mount it.
func TestCopied(t *testing.T) {
	from := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(from, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		dir := t.TempDir()
		found := make([]os.FileInfo, 8)
		var all sync.WaitGroup
		for i := range found {
			all.Go(func() {
				at, err := copied(dir, from)
				if err == nil {
					found[i], err = os.Stat(at)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		last, err := os.Stat(filepath.Join(dir, "nettoll"))
		if err != nil || last.Size() != 1<<20 || last.Mode() != 0o755 {
			t.Fatalf("the copy is %+v (%v)", last, err)
		}
		for i, f := range found {
			if f != nil && !os.SameFile(f, last) {
				t.Errorf("copy %d was replaced", i)
			}
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("the directory holds %v (%v), want one file", list, err)
		}
	}
}
