package cli

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// A program knows its source, whether `go install`, `go build` or nothing recorded it.
func TestOrigin(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	file := filepath.Join(t.TempDir(), "nettoll")
	if err := os.WriteFile(file, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	recorded := func(version string, modified string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: version}}
		if modified != "" {
			info.Settings = []debug.BuildSetting{
				{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: modified},
			}
		}
		return info
	}
	for name, of := range map[string]struct {
		info *debug.BuildInfo
		want origin
	}{
		"go install @v": {recorded("v1.2.3", ""), origin{version: "v1.2.3"}},
		"go build": {
			recorded("v0.0.0-20261123031020-0123456789ab+dirty", "true"),
			origin{"v0.0.0-20261123031020-0123456789ab+dirty", commit, true},
		},
		"no version":          {recorded("(devel)", "false"), origin{"0123456789ab", commit, false}},
		"no version, changed": {recorded("(devel)", "true"), origin{"0123456789ab-dirty", commit, true}},
		"no commit":           {recorded("(devel)", ""), origin{version: "devel-5b1d2f5ea8e2"}},
		"nothing":             {nil, origin{version: "devel-5b1d2f5ea8e2"}},
	} {
		got := originOf(of.info, file)
		if strings.HasPrefix(of.want.version, "devel-") {
			of.want.version = "devel-" + fingerprint(file)
		}
		if got != of.want {
			t.Errorf("%s: %+v, want %+v", name, got, of.want)
		}
	}
	if f := fingerprint(file); len(f) != abbreviated || f == fingerprint(os.Args[0]) {
		t.Errorf("fingerprint %q", f)
	}
}

func TestByGoRun(t *testing.T) {
	for file, want := range map[string]bool{
		"/tmp/go-build2607271671/b001/exe/nettoll":                                                          true,
		"/var/cache/go-build/6d/6dd52acbe23a70f23a863276b71475fd47c1e2d264bd08d8bdb7e49eae861b96-d/nettoll": true,
		"/usr/local/bin/nettoll":        false,
		"/usr/lib/go-build/bin/nettoll": false,
		"":                              false,
	} {
		if got := byGoRun(file); got != want {
			t.Errorf("%q: %v, want %v", file, got, want)
		}
	}
}
