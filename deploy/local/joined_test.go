package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// A process of a lab that is not below this one, as a daemon of the machine starts it, is not another program that uses
// CPUs.
func TestJoined(t *testing.T) {
	name := fmt.Sprintf("joined%d", os.Getpid())
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink("/bin/sh", path); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `"$0" -c 'while :; do :; done' >/dev/null 2>&1 & echo $!`, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(out), &pid); err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	d := &Deployment{}
	used := func() bool {
		end, err := d.Watch()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		return slices.ContainsFunc(end()[0].Programs, func(u procfs.User) bool { return u.Name == name })
	}
	if !used() {
		t.Error("another program that uses a CPU is not reported")
	}
	d.join([]int{pid})
	if used() {
		t.Error("a process of a lab is reported as another program")
	}
}
