package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/process"
)

// A crash has an exit status of its own, wherever it happens: 2 is for wrong usage.
func TestCrash(t *testing.T) {
	if where := os.Getenv("TEST_CRASH"); where != "" {
		os.Exit(Run(t.Context(), "", Streams{In: os.Stdin, Out: crashing{where}, Err: os.Stderr}, []string{"version"}))
	}
	for where, want := range map[string]int{"here": exitCrashed, "elsewhere": exitAborted} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestCrash$")
		cmd.Env = append(os.Environ(), "TEST_CRASH="+where)
		said, _ := cmd.CombinedOutput() // the state says more
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

// So it is in every process that nettoll starts itself: whether it panics here or in a goroutine that serves a
// connection.
func TestCrashOfRoles(t *testing.T) {
	if role := os.Getenv("TEST_CRASH_ROLE"); role != "" {
		planted := crashing{os.Getenv("TEST_CRASH")}
		streams := Streams{In: planted, Out: planted, Err: os.Stderr}
		if role == "lab-owner" || role == "host-init" { // they refuse to be started by hand
			streams.Err = planted
		}
		os.Exit(Run(t.Context(), "", streams, []string{role}))
	}
	for _, c := range []struct {
		role, where string
		want        int
	}{
		{"agent", "here", exitAborted}, // its input is read by a goroutine of its own
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
		_ = cmd.Run() // the state says more
		if got := process.ExitStatus(cmd.ProcessState); got != c.want ||
			!strings.Contains(process.Crash(tail.String()), "planted") {
			t.Errorf("%s, %s: exit status %d, want %d:\n%s", c.role, c.where, got, c.want, tail.String())
		}
	}
}

// crashing is an input and output that panics when it is used.
type crashing struct{ where string }

func (c crashing) Read(p []byte) (int, error) { return c.Write(p) }

func (c crashing) Write([]byte) (int, error) {
	if c.where == "here" {
		panic("planted")
	}
	go panic("planted")
	select {}
}
