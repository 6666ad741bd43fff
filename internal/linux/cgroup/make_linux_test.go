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
