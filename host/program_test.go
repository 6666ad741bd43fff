package host_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
)

// Child processes of a program do not outlive it, and do not hide its end.
func TestProgramThatForks(t *testing.T) {
	k, _ := kernel(t, nil)
	r, err := k.Start(host.Program{Name: "forks", Args: []string{"sh", "-c", "echo last words; sleep 60 & exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("it has not ended, for what it has started")
	}
	if err := r.Died(); err == nil || !strings.Contains(err.Error(), "exit status 3") ||
		!strings.Contains(err.Error(), "last words") {
		t.Errorf("it died of %v, want its status and its last words", err)
	}
	if err := r.Stop(time.Second); err != nil {
		t.Error(err)
	}
}

// A program that a signal has stopped does no work, as if it had ended, until another signal lets it go on.
func TestProgramIsStopped(t *testing.T) {
	k, _ := kernel(t, nil)
	r, err := k.Start(host.Program{Name: "hangs", Args: []string{"sh", "-c", "echo last words; exec sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		logs, err := k.Logs()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("its log is %q: %v", logs, err)
		}
		if logs["hangs"] != "" {
			break
		}
	}
	became := func(stopped bool) {
		t.Helper()
		var now []host.ProgramState
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			now = k.Programs()
			if len(now) != 1 {
				t.Fatalf("%+v, want one program", now)
			}
			says := strings.Contains(now[0].Died, "is stopped (SIGSTOP)") && strings.Contains(now[0].Died, "last words")
			if says == stopped && (stopped || now[0].Died == "") {
				return
			}
		}
		t.Errorf("%+v, want a program that is stopped: %t", now, stopped)
	}
	for _, step := range []struct {
		signal  syscall.Signal
		stopped bool
	}{{syscall.SIGSTOP, true}, {syscall.SIGCONT, false}, {syscall.SIGSTOP, true}} {
		if err := r.Signal(step.signal); err != nil {
			t.Fatal(err)
		}
		became(step.stopped)
	}
	if err := r.Stop(10 * time.Millisecond); err != nil {
		t.Error(err)
	}
}

// A program that ends at once was started, and its end says why. Whoever starts it must not depend on which of both is
// seen first.
func TestProgramThatEnds(t *testing.T) {
	k, _ := kernel(t, nil)
	for range 100 {
		r, err := k.Start(host.Program{Name: "ends", Args: []string{"false"}})
		if err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		if p := r.Process(); p.PID != r.PID() || p.Started == 0 || k.Runs(p) {
			t.Fatalf("process %d was started at %d, runs: %t", p.PID, p.Started, k.Runs(p))
		}
		if p := k.Process("ends"); p != (host.Process{}) {
			t.Fatalf("%+v is said to run", p)
		}
		if err := r.Died(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
			t.Fatalf("it died of %v, want its status", err)
		}
	}
}
