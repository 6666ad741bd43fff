package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/process"
)

// Whichever goroutine crashes, the exit status is not 2, which is for wrong usage.
func TestCrash(t *testing.T) {
	if where := os.Getenv("TEST_CRASH"); where != "" {
		os.Exit(Run(t.Context(), "", Streams{In: os.Stdin, Out: crashing{where}, Err: os.Stderr}, []string{"version"}))
	}
	for where, want := range map[string]int{"here": exitCrashed, "elsewhere": exitAborted} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestCrash$")
		cmd.Env = append(os.Environ(), "TEST_CRASH="+where)
		said, _ := cmd.CombinedOutput() // the process state has the exit status
		got := cmd.ProcessState.ExitCode()
		if got < 0 {
			got = exitAborted
			if !strings.Contains(cmd.ProcessState.String(), "signal: aborted") {
				t.Errorf("%s: it ended with %v", where, cmd.ProcessState)
			}
		}
		if got != want || !strings.Contains(string(said), "planted") {
			t.Errorf("%s: exit status %d, want %d:\n%s", where, got, want, said)
		}
		if where == "here" && !strings.Contains(string(said), "nettoll: internal error: planted") {
			t.Errorf("it says:\n%s", said)
		}
	}
}

// The same holds for every process that nettoll starts of itself, whether it panics in the main goroutine or in one
// that serves a connection.
func TestCrashOfRoles(t *testing.T) {
	if role := os.Getenv("TEST_CRASH_ROLE"); role != "" {
		planted := crashing{os.Getenv("TEST_CRASH")}
		streams := Streams{In: planted, Out: planted, Err: os.Stderr}
		if role == "lab-owner" || role == "host-init" { // started by hand, they fail and write an error
			streams.Err = planted
		}
		os.Exit(Run(t.Context(), "", streams, []string{role}))
	}
	for _, c := range []struct {
		role, where string
		want        int
	}{
		{"agent", "here", exitAborted}, // a goroutine reads its input
		{"worker", "here", exitAborted},
		{"sink-session", "elsewhere", exitAborted},
		{"sink-session", "here", exitCrashed},
		{"lab-owner", "elsewhere", exitAborted},
		{"host-init", "elsewhere", exitAborted},
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestCrashOfRoles$")
		cmd.Env = append(os.Environ(), "TEST_CRASH_ROLE="+c.role, "TEST_CRASH="+c.where)
		var tail process.Tail
		cmd.Stdout, cmd.Stderr = &tail, &tail
		_ = cmd.Run() // the process state has the exit status
		if got := process.ExitStatus(cmd.ProcessState); got != c.want ||
			!strings.Contains(process.Crash(tail.String()), "planted") {
			t.Errorf("%s, %s: exit status %d, want %d:\n%s", c.role, c.where, got, c.want, tail.String())
		}
	}
}

// crashing is a stream that panics when it is used.
type crashing struct{ where string }

func (c crashing) Read(p []byte) (int, error) { return c.Write(p) }

func (c crashing) Write([]byte) (int, error) {
	if c.where == "here" {
		panic("planted")
	}
	go panic("planted")
	select {}
}
