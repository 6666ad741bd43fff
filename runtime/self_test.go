package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/image"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A program that needs shared libraries cannot run in a container that has no file but it: the error says so before
// anything is built.
func TestStatic(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if loader, err := image.Loader(shell); loader == "" {
		testnet.Lacks(t, fmt.Sprintf("a shell with shared libraries (%v)", err))
	}
	err = static("make containers", shell)
	var unsupported *linux.UnsupportedError
	if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "CGO_ENABLED=0") ||
		!strings.Contains(err.Error(), "needs /") {
		t.Errorf("a program with shared libraries: %v", err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := static("make containers", path); err == nil || errors.As(err, &unsupported) {
		t.Errorf("a file that is not a program of this kind: %v", err)
	}
}
