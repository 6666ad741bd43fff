package procfs

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// A child is listed until it is waited for. A process that is gone has no children.
func TestChildren(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	list, err := Children(os.Getpid())
	if err != nil || !slices.Contains(list, sleep.Process.Pid) {
		t.Errorf("children %v, %v, want %d among them", list, err, sleep.Process.Pid)
	}
	if err := sleep.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleep.Wait()
	if list, err := Children(os.Getpid()); err != nil || slices.Contains(list, sleep.Process.Pid) {
		t.Errorf("children %v, %v, want %d not among them", list, err, sleep.Process.Pid)
	}
	if list, err := Children(1 << 30); err != nil || len(list) > 0 {
		t.Errorf("children of no process: %v, %v", list, err)
	}
}
