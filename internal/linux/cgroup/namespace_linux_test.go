package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
)

// stage says how far [TestUsableInNamespace] has come in a process that it starts.
const stage = "NETTOLL_TEST_STAGE"

// In a cgroup namespace, as containers have them, groups cannot be made while processes are in its root, with v2 alone.
// They can once the processes were moved as the hint says.
func TestUsableInNamespace(t *testing.T) {
	testnet.Root(t)
	list, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || !list[0].V2 {
		testnet.Lacks(t, "cgroup v2 alone")
	}
	again := func(script, next string, flags uintptr) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script+`; exec "$0" -test.run='^TestUsableInNamespace$'`, os.Args[0])
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), stage+"="+next), &syscall.SysProcAttr{Cloneflags: flags}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("stage %s: %v\n%s", next, err, out)
		}
	}
	switch os.Getenv(stage) {
	case "":
		group := fmt.Sprintf("nettoll-test-root-%d", os.Getpid())
		if err := cgroup.MakeLeaf(group); err != nil {
			t.Fatal(err)
		}
		again("echo 0 >"+filepath.Join(list[0].Dir, group, "cgroup.procs"), "in the group", 0)
		if err := cgroup.Remove(group); err != nil {
			t.Error(err)
		}
	case "in the group":
		again("mount --make-rprivate /; umount "+cgroup.Dir+"; mount -t cgroup2 cgroup "+cgroup.Dir, "in the namespace",
			syscall.CLONE_NEWNS|syscall.CLONE_NEWCGROUP)
	case "in the namespace":
		err := cgroup.Usable("make groups")
		u, is := errors.AsType[*linux.UnsupportedError](err)
		if !is || !strings.HasPrefix(u.Missing, "a control group without processes") {
			t.Fatalf("with processes in the root: %v", err)
		}
		_, script, _ := strings.Cut(u.Hint, ": ")
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Logf("%s: %v: %s", script, err, out) // the processes of the script itself have ended by then
		}
		if err := cgroup.Usable("make groups"); err != nil {
			t.Fatal(err)
		}
		if err := cgroup.MakeLeaf("leaf"); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(cgroup.Dir, "leaf", "cgroup.controllers"))
		if err != nil || !strings.Contains(string(text), "memory") {
			t.Errorf("a group has the controllers %q (%v)", text, err)
		}
	}
}

// Without the right to write there is no group. The hint gives it.
func TestUsableReadOnly(t *testing.T) {
	testnet.Root(t)
	if os.Getenv(stage) == "" {
		cmd := exec.Command("sh", "-ec", `mount --make-rprivate /
			for d in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do mount --bind $d $d; mount -o remount,bind,ro $d; done
			exec "$0" -test.run='^TestUsableReadOnly$'`, os.Args[0])
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), stage+"=ro"), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	list, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		err := cgroup.Usable("make groups")
		if err == nil && i > 0 {
			return
		}
		u, is := errors.AsType[*linux.UnsupportedError](err)
		if !is || !strings.Contains(u.Missing, "read-only") || i > len(list) {
			t.Fatalf("after %d hints: %v", i, err)
		}
		_, script, _ := strings.Cut(u.Hint, "otherwise: ")
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
}
