package runtimetest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
)

// CannotStart checks that a runtime reports a worker whose program cannot be executed, with its own reason, and that
// neither cgroups nor files are left of the container.
func CannotStart(t *testing.T, r runtime.Populated, given map[string]string, want ...string) {
	t.Helper()
	testnet.Root(t)
	d := r.Describe()
	p, err := d.Params.Resolve("runtime "+d.Name, given)
	if err != nil {
		t.Fatal(err)
	}
	if c, is := r.(runtime.Checker); is {
		testnet.Skip(t, c.Check(p))
	}
	bad := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(bad, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, notes := testnet.New(t), new(made)
	k, err := kernelWith(t, m, runDir(t), notes, func(string) *exec.Cmd {
		return &exec.Cmd{Path: bad, Args: []string{"nettoll"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	steps, err := r.Containers(own()[:1], p)
	if err != nil {
		t.Fatal(err)
	}
	var s host.Stack
	err = s.Apply(t.Context(), k, host.Plan{Steps: steps})
	for _, text := range want {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("a container whose program cannot be executed: %v, want %q in it", err, text)
		}
	}
	if err := errors.Join(s.Undo(t.Context(), k), s.Undo(t.Context(), k)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(m.Dir); err != nil || len(left) > 0 {
		t.Errorf("undone, there is %v (%v), want nothing", left, err)
	}
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, h := range hierarchies {
		for _, name := range notes.groups {
			groups = append(groups, filepath.Join(h.Dir, name))
		}
	}
	if len(groups) == 0 {
		t.Error("no cgroup of a container was noted: this shows nothing")
	}
	noGroups(t, groups)
}

// made is a journal of the control groups of containers.
type made struct{ groups []string }

// Write keeps the cgroup of a note that has one.
func (j *made) Write(n host.Note) error {
	var m runtime.Made
	if len(n.Kept) == 0 || json.Unmarshal(n.Kept, &m) != nil || m.Cgroup == "" {
		return nil // another step's
	}
	j.groups = append(j.groups, m.Cgroup)
	return nil
}
