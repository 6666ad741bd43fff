package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
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

// A child that has ended does not run, but has a start time until it is waited for.
func TestStartedChild(t *testing.T) {
	ends := exec.Command("true")
	out, err := ends.StdoutPipe() // closed when it has ended
	if err == nil {
		err = ends.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Fatal("it says something")
	}
	pid := ends.Process.Pid
	for range 1000 { // the pipe is closed shortly before it has ended
		if _, err = Started(pid); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if ticks, child := StartedChild(pid); !errors.Is(err, fs.ErrNotExist) || child != nil || ticks == 0 {
		t.Errorf("Started = %v, want that it does not exist; StartedChild = %d, %v", err, ticks, child)
	}
	_ = ends.Wait()
	if ticks, err := StartedChild(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("StartedChild = %d, %v after it was waited for", ticks, err)
	}
}
