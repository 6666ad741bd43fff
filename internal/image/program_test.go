package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestListed(t *testing.T) {
	const glibc = "\tlinux-vdso.so.1 (0x00007ffd2a5f5000)\n" +
		"\tlibiperf.so.0 => /lib/x86_64-linux-gnu/libiperf.so.0 (0x00007f3c0a4d6000)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f3c0a51c000)\n"
	want := []string{"/lib/x86_64-linux-gnu/libiperf.so.0", "/lib64/ld-linux-x86-64.so.2"}
	if got, err := listed(glibc); err != nil || !slices.Equal(got, want) {
		t.Errorf("libraries %q (%v), want %q", got, err, want)
	}
	const lacks = "libiperf.so.0 is not found"
	if got, err := listed("\tlibiperf.so.0 => not found\n"); err == nil || err.Error() != lacks {
		t.Errorf("libraries %q (%v), want the error %q", got, err, lacks)
	}
}

// TestWhole starts a program in a root directory that holds nothing but what Whole returns.
func TestWhole(t *testing.T) {
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	files, err := Whole(t.Context(), shell, this)
	if err != nil {
		t.Fatal(err)
	}
	if loader, err := Loader(shell); err != nil || loader == "" || len(files) < 3 {
		t.Fatalf("%s has the loader %q (%v) and %d files, want a loader and a library", shell, loader, err, len(files))
	}
	root := t.TempDir()
	for _, f := range files {
		path := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, f.Mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("alone", func(t *testing.T) {
		testnet.Root(t)
		out, err := exec.Command("chroot", root, shell, "-c", "echo here").CombinedOutput()
		if err != nil || string(out) != "here\n" {
			t.Errorf("%s in a root directory of its own: %q (%v)", shell, out, err)
		}
	})
	loader, err := Loader(this)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := Whole(t.Context(), this, this); err != nil || (len(files) == 1) != (loader == "") {
		t.Errorf("%d files of a program with the loader %q (%v), want 1 without one", len(files), loader, err)
	}
	other := filepath.Join(root, "other")
	data, err := os.ReadFile(this)
	if err != nil {
		t.Fatal(err)
	}
	const machine = 18 // the place of e_machine, elf(5)
	data[machine] ^= 1
	if err := os.WriteFile(other, data, 0o755); err != nil {
		t.Fatal(err)
	}
	const unlike = " is for another machine ("
	if _, err := Whole(t.Context(), shell, other); err == nil || !strings.Contains(err.Error(), unlike) {
		t.Errorf("a program for another machine: %v", err)
	}
	script := filepath.Join(root, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const scripts = "is no program of machine code but perhaps a script, whose interpreter the image lacks"
	if _, err := Whole(t.Context(), script, this); err == nil || !strings.HasSuffix(err.Error(), scripts) {
		t.Errorf("a script: %v", err)
	}
}
