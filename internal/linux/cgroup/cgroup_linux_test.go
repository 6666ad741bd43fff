package cgroup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestRemove wants a group to go with a group below it and a process in that, and to be gone the second time.
func TestRemove(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, cgroup.Usable("make cgroups"))
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	name, base := "nettoll-test-"+strconv.Itoa(os.Getpid()), "/nettoll-base-"+strconv.Itoa(os.Getpid())
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	for _, h := range hierarchies {
		if err := os.MkdirAll(filepath.Join(h.Dir, base, name), 0o755); err != nil {
			t.Fatal(err)
		}
		below := filepath.Join(h.Dir, name, "below")
		if err := os.MkdirAll(below, 0o755); err != nil {
			t.Fatal(err)
		}
		// A cpuset of v1 takes no process before it has CPUs.
		err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0o600)
		t.Logf("%s: %v", below, err)
	}
	for _, bases := range [][]string{{base}, nil} {
		if there, err := cgroup.Exists(name, bases...); err != nil || !there {
			t.Errorf("with bases %q the group exists: %t, %v, want true", bases, there, err)
		}
	}
	for range 2 {
		if err := cgroup.Remove(name, base); err != nil {
			t.Error(err)
		}
		if there, err := cgroup.Exists(name, base); err != nil || there {
			t.Errorf("the group that was removed exists: %t, %v", there, err)
		}
	}
	if err := sleep.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	for _, h := range hierarchies {
		for _, of := range []string{name, base + "/" + name} {
			if _, err := os.Stat(filepath.Join(h.Dir, of)); err == nil {
				t.Errorf("%s is left in %s", of, h.Dir)
			}
		}
		if err := os.Remove(filepath.Join(h.Dir, base)); err != nil {
			t.Error(err)
		}
	}
}

// TestRemoveFrozen wants a group to go whose processes a runtime had frozen before it was killed.
func TestRemoveFrozen(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, cgroup.Usable("make cgroups"))
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	name := "nettoll-test-frozen-" + strconv.Itoa(os.Getpid())
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	frozen := false
	for _, h := range hierarchies {
		dir := filepath.Join(h.Dir, name, "below")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0o600)
		t.Logf("%s: %v", dir, err)
		for file, value := range map[string]string{"freezer.state": "FROZEN", "cgroup.freeze": "1"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				continue // it is of the other version
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
				t.Error(err)
			}
			frozen = true
		}
	}
	if !frozen {
		t.Error("no hierarchy freezes: this shows nothing")
	}
	if err := cgroup.Remove(name); err != nil {
		t.Error(err)
		_ = os.WriteFile(filepath.Join(cgroup.Dir, "freezer", name, "below", "freezer.state"), []byte("THAWED"), 0o600)
	}
	if err := sleep.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	if err := cgroup.Remove(name); err != nil {
		t.Error(err)
	}
}
