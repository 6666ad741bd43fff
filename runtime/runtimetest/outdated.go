package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
)

// Outdated checks that a runtime refuses each of these programs if it is too old, with the version that was found, and
// takes all of them if they are recent. The other programs that it needs may have any version.
func Outdated(t *testing.T, r runtime.Checker, given map[string]string, programs []string, others ...string) {
	t.Helper()
	testnet.Root(t)
	d := r.(runtime.Runtime).Describe()
	p, err := d.Params.Resolve("runtime "+d.Name, given)
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, old string) error {
		t.Helper()
		dir := t.TempDir() // another path than those that were asked
		for _, name := range slices.Concat(programs, others) {
			line := name + " version 99.0.1"
			if name == old {
				line = name + " github.com/" + name + "/v2 0.9.12~ds1"
			} else if slices.Contains(others, name) {
				line = name + " version unknown"
			}
			script := fmt.Sprintf("#!/bin/sh\necho '%s'\necho 'spec: 0.1.0'\n", line)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		return r.Check(p)
	}
	t.Run("none", func(t *testing.T) {
		err := check(t, "")
		if u, is := errors.AsType[*linux.UnsupportedError](err); is && strings.Contains(u.Hint, "package") {
			t.Fatal(err)
		}
		testnet.Skip(t, err)
	})
	for _, old := range programs {
		t.Run(old, func(t *testing.T) {
			err := check(t, old)
			u, is := errors.AsType[*linux.UnsupportedError](err)
			if !is || !strings.HasPrefix(u.Missing, old+" ") || !strings.HasSuffix(u.Missing, "or newer (found 0.9.12)") ||
				!strings.HasPrefix(u.Hint, "install a newer package ") {
				t.Errorf("Check with an old %s = %v", old, err)
			}
		})
	}
}
