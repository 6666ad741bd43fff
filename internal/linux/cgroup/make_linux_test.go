package cgroup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A group for processes has all controllers: those of v1 by their hierarchies, those of v2 alone because the root passes
// them on. A process can be moved into it.
func TestMakeLeaf(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, cgroup.Usable("show that groups for processes are made"))
	name := "nettoll-test-leaf-" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() {
		if err := cgroup.Remove(name); err != nil {
			t.Error(err)
		}
		if exists, err := cgroup.Exists(name); exists || err != nil {
			t.Errorf("the group exists after Remove: %v, %v", exists, err)
		}
	})
	if err := cgroup.MakeLeaf(name); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.MakeLeaf(name); err == nil {
		t.Error("a group was made twice")
	}
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait() // it was killed
	}()
	if err := cgroup.Move(sleep.Process.Pid, name); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(sleep.Process.Pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, h := range hierarchies {
		if h.V2 && len(hierarchies) > 1 {
			continue // beside v1 it is not used
		}
		want++
		if !h.V2 {
			continue
		}
		files := [2]string{}
		for i, dir := range []string{h.Dir, filepath.Join(h.Dir, name)} {
			text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = string(text)
		}
		if files[0] != files[1] {
			t.Errorf("the group has the controllers %q, want all of the root, %q", files[1], files[0])
		}
	}
	if got := strings.Count(string(text), ":/"+name+"\n"); got != want {
		t.Errorf("a process is in groups of %d hierarchies, want %d:\n%s", got, want, text)
	}
}

// A group that was made has the CPUs of its parent, so that a process can join it, in every hierarchy.
func TestMake(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, cgroup.Makeable("show that groups are made"))
	name := "nettoll-test-make-" + strconv.Itoa(os.Getpid())
	if err := cgroup.Make(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cgroup.Remove(name); err != nil {
			t.Error(err)
		}
		if exists, err := cgroup.Exists(name); exists || err != nil {
			t.Errorf("the group exists after Remove: %v, %v", exists, err)
		}
	})
	if err := cgroup.Make(name); err == nil {
		t.Error("a group was made twice")
	}
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	// A process that joins by itself, as Join does: this one has to stay where it is.
	script := ""
	for _, h := range hierarchies {
		script += "echo 0 >" + filepath.Join(h.Dir, name, "cgroup.procs") + "; "
	}
	text, err := exec.Command("sh", "-ec", script+"cat /proc/self/cgroup").CombinedOutput()
	if err != nil {
		t.Fatalf("join: %v: %s", err, text)
	}
	if got := strings.Count(string(text), ":/"+name+"\n"); got < len(hierarchies) {
		t.Errorf("a process joined %d hierarchies of %d:\n%s", got, len(hierarchies), text)
	}
}
