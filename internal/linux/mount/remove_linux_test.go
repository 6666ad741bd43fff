package mount_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/mount"
)

// A program that is about to end makes files in the directory that is removed.
func TestRemoveBesideOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n, end := 0, time.Now().Add(100*time.Millisecond); time.Now().Before(end); n++ {
			_ = os.MkdirAll(filepath.Join(dir, "a", strconv.Itoa(n)), 0o700)
		}
	}()
	for _, err := os.Stat(filepath.Join(dir, "a")); err != nil; _, err = os.Stat(filepath.Join(dir, "a")) {
		time.Sleep(time.Millisecond) // it has not begun
	}
	err := mount.Remove(dir)
	<-ended
	if err = errors.Join(err, mount.Remove(dir)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there (%v)", err)
	}
}
