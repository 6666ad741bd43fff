package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// TestAwait follows a process that is no child of this one, reads its CPU time by the directory of processes, and
// limits it.
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
	done, _, err := Await(pid)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := Affinity(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := SetAffinity(pid, cpus[:1]); err != nil {
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

// How a process has ended is known whether or not somebody has waited for it already.
func TestAwaitStatus(t *testing.T) {
	for script, want := range map[string]string{
		"read x; exit 0": "exit status 0", "read x; exit 3": "exit status 3", "read x; kill -TERM $$": "signal: terminated",
	} {
		cmd := exec.Command("sh", "-c", script)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, how, err := Await(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
		if got := how(); got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
		_ = cmd.Wait() // it says the same
		if forgets, err := Forgets(); err != nil {
			t.Fatal(err)
		} else if forgets {
			want = Ended(nil) // before Linux 6.15
		}
		if got := exited(fd, cmd.Process.Pid); got != want {
			t.Errorf("%q, once waited for: %q, want %q", script, got, want)
		}
		_ = unix.Close(fd)
	}
}

// Threads that are started while a process limits its threads are limited as well.
func TestLimitedWhileItStartsThreads(t *testing.T) {
	cpus, err := Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < 2 {
		testnet.Lacks(t, "a second CPU")
	}
	testnet.NotInRace(t, "threads are limited one by one, as in every program with a C library")
	for range 20 {
		cmd := exec.Command("/proc/self/exe", "threads", fmt.Sprint(cpus[0]))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		said, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || said != "limited\n" {
			t.Errorf("it says %q: %v", said, err)
		}
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil || len(threads) < 3 {
			t.Errorf("it has %d threads: %v", len(threads), err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			// A thread that was about to end is not limited, and may take a while until it has ended. Those that
			// live stay.
			got, err := Affinity(tid)
			for end := time.Now().Add(10 * time.Second); err == nil && !slices.Equal(got, cpus[:1]); got, err = Affinity(tid) {
				if time.Now().After(end) {
					t.Errorf("thread %d of %d may run on %v, want %v", tid, len(threads), got, cpus[:1])
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			return
		}
	}
}
