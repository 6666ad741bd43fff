package runtimetest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
)

// refusing is a crun that refuses cgroups of both versions, in the words of 1.8.1. containerd reads them from a log.
const refusing = `#!/bin/sh
case "$*" in *--version*) echo "crun version 1.8.1"; exit ;; esac
said="cgroups in hybrid mode not supported, drop all controllers from cgroupv2"
while [ $# -gt 0 ]; do
	[ "$1" != --log ] || echo '{"msg":"'"$said"'","level":"error","time":"2026-11-30T00:00:00Z"}' >"$2"
	shift
done
echo "$said" >&2
exit 1
`

// Hybrid checks that a runtime, whose parameter "command" may be crun, says what would help if crun refuses the cgroups
// of its host, and that nothing is left then.
func Hybrid(t *testing.T, r runtime.Populated) {
	t.Helper()
	testnet.Root(t)
	d := r.Describe()
	p, err := d.Params.Resolve("runtime "+d.Name, map[string]string{runtime.Command: runtime.CRun})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, runtime.CRun), []byte(refusing), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if c, is := r.(runtime.Checker); is {
		testnet.Skip(t, c.Check(p))
	}
	m := testnet.New(t)
	k := Kernel(t, m)
	steps, err := r.Containers(own()[:1], p)
	if err != nil {
		t.Fatal(err)
	}
	var s host.Stack
	err = s.Apply(t.Context(), k, host.Plan{Steps: steps})
	u, is := errors.AsType[*linux.UnsupportedError](err)
	if !is || u.Missing != "cgroups of one version" ||
		!strings.HasPrefix(u.Hint, "use command=runc, or unmount /sys/fs/cgroup/") ||
		!strings.HasPrefix(u.Err.Error(), "cgroups in hybrid mode not supported") {
		t.Errorf("a container whose crun refuses cgroups of both versions: %v", err)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(m.Dir); err != nil || len(left) > 0 {
		t.Errorf("undone, there is %v (%v), want nothing", left, err)
	}
}
