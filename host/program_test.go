package host_test

import (
	"strings"
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
