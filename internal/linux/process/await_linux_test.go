package process

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// TestAwait follows a process that is no child of this one, reads its CPU time by the directory of processes, and
// limits its threads.
func TestAwait(t *testing.T) {
	shell := exec.Command("sh", "-c", `sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!`) // the child of a shell that ends
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(out), &pid); err != nil {
		t.Fatal(err)
	}
	done, err := Await(pid)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := Affinity(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := SetAffinities(pid, cpus[:1]); err != nil {
		t.Error(err)
	}
	if got, err := Affinity(pid); err != nil || !slices.Equal(got, cpus[:1]) {
		t.Errorf("it may run on %v (%v), want %v", got, err, cpus[:1])
	}
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	const some = 50 * time.Millisecond
	for end := time.Now().Add(10 * time.Second); RunTime(pid) < some && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	least := RunTime(pid)
	select {
	case <-done:
		t.Error("it is gone before it was killed")
	default:
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	got := RunTimeIn(proc, pid)
	if most := RunTime(pid); got < least-2*tick || got > most {
		t.Errorf("its CPU time is %v by its threads, and %v to %v by its clock", got, least, most)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	<-done
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // somebody else reaps it
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil || time.Now().After(end) {
			break
		}
	}
	if got := RunTimeIn(proc, pid); got != 0 {
		t.Errorf("a process that is gone has used %v", got)
	}
}
