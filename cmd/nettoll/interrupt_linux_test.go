package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
)

// Ctrl-C ends a run within a second in every phase. The run reports what it has measured.
func TestInterrupt(t *testing.T) {
	testnet.Root(t)
	block := func(s *session) { s.blocks(1) }
	for _, tt := range []struct {
		name     string
		args     []string
		when     func(*session)
		measured bool // at least a block by then
	}{
		{"at the start", nil, func(s *session) {
			s.until("a run directory", func() bool {
				_, err := os.Stat(s.dir)
				return err == nil
			})
		}, false},
		{"while building", nil, func(s *session) {
			s.until("a host", func() bool { return len(s.members()) > 3 })
		}, false},
		{"after a block", nil, block, true},
		{"between generations", []string{"--time", "3s"}, func(s *session) {
			s.until("a proof after the blocks", func() bool {
				log, _ := s.records()
				return len(log.Proofs) > 0 && log.Proofs[len(log.Proofs)-1].When == "after"
			})
		}, true},
		{
			"in a mix",
			[]string{"--workload", "mix(udp-rr,tcp-stream)", "--pairs", "2", "--placement", "same-host"},
			block,
			true,
		},
		{"in a long trial", []string{"--trial", "10s", "--workload", "udp-rr"}, func(s *session) {
			s.until("all workers", func() bool { return len(s.members()) > 20 })
			time.Sleep(500 * time.Millisecond)
		}, false},
		{"while a worker hangs", []string{"--workload", "udp-rr", "--placement", "same-host"}, func(s *session) {
			s.measuring()
			var w member
			s.until("a worker", func() (ok bool) {
				w, ok = s.worker("source@host1")
				return ok
			})
			if err := unix.Kill(w.pid, unix.SIGSTOP); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			took, seen := interrupted(t, tt.args, tt.when, tt.measured)
			if took > soon+seen.Excuse() {
				t.Errorf("it took %v, want at most %v (%v)", took, soon, seen)
			}
		})
	}
}

// interrupted interrupts a run at some point and returns how long it took to end, and what other work did meanwhile.
// With measured, the run must have measured something by then.
func interrupted(t *testing.T, args []string, when func(*session), measured bool) (took time.Duration,
	seen witness.Seen,
) {
	t.Helper()
	s := start(t, append([]string{"--time", "30s"}, args...)...)
	when(s)
	before, _ := s.records()
	if measured && len(before.Blocks) == 0 {
		t.Fatal("no block was measured: this shows nothing")
	}
	watch := witness.Begin(t)
	asked := s.interrupt()
	if status := s.wait(10 * time.Second); status != 130 {
		t.Errorf("exit status %d, want 130", status)
	}
	took, seen = s.end.Sub(asked), watch.Seen(t)
	contains(t, "stderr", s.stderr.String(), "nettoll: interrupted: reporting what was measured (again to stop at once)")
	after, torn := s.records()
	if torn || len(after.Blocks) < len(before.Blocks) || len(after.Trials) < len(before.Trials) {
		t.Errorf("torn: %v; %d blocks and %d trials, there were %d and %d", torn, len(after.Blocks), len(after.Trials),
			len(before.Blocks), len(before.Trials))
	}
	if len(after.Trials) == 0 {
		contains(t, "stderr", s.stderr.String(), "nettoll: nothing was measured yet")
		return took, seen
	}
	contains(t, "stdout", s.stdout.String(), "bridge", "baseline", "it was interrupted", "nettoll report "+s.dir)
	again := nettoll(t, "report", s.dir)
	if again.status != 0 || again.stderr != "" {
		t.Errorf("report exits with %d: %s", again.status, again.stderr)
	}
	if table, _, _ := strings.Cut(s.stdout.String(), "\nThe run ended because"); table != again.stdout {
		t.Errorf("the interrupted run said\n%s\nits report says\n%s", table, again.stdout)
	}
	return took, seen
}

// A second Ctrl-C does not wait for a report. Here the report cannot be written, because nobody reads it.
func TestInterruptTwice(t *testing.T) {
	testnet.Root(t)
	s := prepare(t, filepath.Join(t.TempDir(), "run"), "--time", "30s", "--workload", "udp-rr", "--placement", "same-host")
	s.twice(unix.SIGINT, func() { s.interrupt() }, 300*time.Millisecond)
}

// twice starts a run whose standard output is never read, interrupts it after a block, and again when it has heard the
// first interrupt. The second signal must end it within the limit.
func (s *session) twice(signal unix.Signal, send func(), limit time.Duration) {
	s.t.Helper()
	s.cmd.Stdout = neverRead(s.t)
	s.begin()
	s.measuring()
	send()
	const heard = "nettoll: interrupted: reporting what was measured (again to stop at once)"
	s.until(heard, func() bool { return strings.Contains(s.stderr.String(), heard) })
	// Only its report is left then. For an ordinary user, one process is outside of the user namespace and one inside.
	s.until("the end of all hosts", func() bool { return len(s.members()) <= 2 })
	watch, asked := witness.Begin(s.t), time.Now()
	send()
	if status := s.wait(10 * time.Second); status != 128+int(signal) {
		s.t.Errorf("exit status %d, want %d", status, 128+int(signal))
	}
	if took, seen := s.end.Sub(asked), watch.Seen(s.t); took > limit+excuse(seen) {
		s.t.Errorf("it took %v, want at most %v (%v)", took, limit, seen)
	}
}

// The loss of the terminal ends a run in good order, for root and for an ordinary user. Under nohup the run goes on.
func TestHangUp(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, unix.SIGHUP) // nohup ignores it, and children would, too (signal(7), execve(2))
	t.Cleanup(func() { signal.Stop(hangUps) })
	args := []string{"--network", "bridge", "--workload", "udp-rr", "--placement", "same-host", "--time", "30s"}
	for name, prepare := range map[string]func() *session{
		"root":          func() *session { return prepare(t, filepath.Join(t.TempDir(), "run"), args...) },
		"ordinary user": func() *session { return ordinarily(t, args...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := prepare()
			s.begin()
			s.blocks(1)
			if err := unix.Kill(-s.cmd.Process.Pid, unix.SIGHUP); err != nil {
				t.Fatal(err)
			}
			if status := s.wait(patience); status != 130 {
				t.Errorf("exit status %d, want 130", status)
			}
			contains(t, "stdout", s.stdout.String(), "it was interrupted")
			if _, err := os.Stat(filepath.Join(s.dir, "report.html")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A run whose progress or report is not read any more is measured to its end and kept.
func TestClosedPipes(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := prepare(t, filepath.Join(t.TempDir(), "run"), "--network", "bridge", "--workload", "udp-rr", "--placement",
		"same-host", "--time", "1s", "-v")
	gone, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	s.cmd.Stdout, s.cmd.Stderr = pipe, pipe
	s.begin()
	_ = pipe.Close()
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	if log, torn := s.records(); torn || len(log.Blocks) < 5 {
		t.Errorf("torn: %v, %d blocks", torn, len(log.Blocks))
	}
	if _, err := os.Stat(filepath.Join(s.dir, "report.html")); err != nil {
		t.Error(err)
	}
}

// A plan has nothing to undo: one interrupt ends it, even if it waits for a reader of its output.
func TestInterruptOfPlan(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Getenv(programEnv), "plan", "--hosts", "--pairs", "500") // prints more than a pipe holds
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it prints
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the process state has the exit status
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v, want the interrupt", cmd.ProcessState)
	}
}
