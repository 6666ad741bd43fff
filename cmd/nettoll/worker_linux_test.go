package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/measure"
)

// lost returns the ways in which a worker fails, and the signal for each.
func lost() map[string]unix.Signal {
	return map[string]unix.Signal{"dies": unix.SIGKILL, "hangs": unix.SIGSTOP}
}

// A worker that dies or hangs ends its trial and is started again. Nothing else is lost, and the report says so.
func TestWorkerIsStartedAgain(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	for name, sig := range lost() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for deadlines
			s := start(t, "--time", "5s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host")
			s.fault("source@host1", sig, "it was started again")
			at, _ := s.records()
			if status := s.wait(patience); status != 0 {
				t.Errorf("exit status %d, want 0", status)
			}
			said := oneLine(s.stdout.String())
			contains(t, "stdout", said, "worker source@host1 of lab bridge/same-host/1", "it was started again")
			if stopped := ") is stopped (SIGSTOP): it was started again"; sig == unix.SIGSTOP {
				contains(t, "stdout", said, "worker source@host1 (process ", stopped)
			}
			log, _ := s.records()
			trials := map[string]int{}
			for _, r := range log.Trials {
				// Trials of a starved machine fail, but they are recorded: only those count as lost whose worker is why.
				if !strings.Contains(r.Failed, "worker") {
					trials[r.Cell]++
				}
			}
			for cell, n := range trials {
				if want := len(log.Blocks) - 1; n < want {
					t.Errorf("%s: %d trials in %d blocks, want at least %d", cell, n, len(log.Blocks), want)
				}
			}
			if len(trials) != 3 || len(log.Blocks) < len(at.Blocks)+3 {
				t.Errorf("%d cells and %d blocks, of which %d are older than the fault: the run did not go on", len(trials),
					len(log.Blocks), len(at.Blocks))
			}
		})
	}
}

// If a worker dies again in the same generation, its lab loses the rest of that generation. The next generation builds
// the lab again.
func TestWorkerIsLost(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := start(t, "--time", "20s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host")
	s.fault("sink@host1", unix.SIGKILL, "it was started again")
	s.fault("sink@host1", unix.SIGKILL, "rebuilt in the next one")
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	said := oneLine(s.stdout.String())
	contains(t, "stdout", said, "worker sink@host1 of lab bridge/same-host/1", "it was started again",
		"rebuilt in the next one")
	log, _ := s.records()
	measured := map[int]bool{}
	for _, r := range log.Trials {
		if strings.HasPrefix(r.Cell, "bridge/") && r.Failed == "" {
			measured[r.Generation] = true
		}
	}
	lost := -1
	for i, g := range log.Generations {
		if g.Lost["bridge/same-host/1"] != "" {
			lost = i
			if g.Deaths["bridge/same-host/1"] < 2 {
				t.Errorf("generation %d, in which the lab was lost, counts %v deaths", g.Generation, g.Deaths)
			}
		} else if lost >= 0 && !measured[g.Generation] {
			t.Errorf("generation %d has no trial of the lab that was lost before", g.Generation)
		}
	}
	if lost < 0 || lost == len(log.Generations)-1 {
		t.Errorf("the lab was lost in generation %d of %d: this shows nothing", lost+1, len(log.Generations))
	}
}

// The report names an agent that was stopped. Its lab is lost for the rest of the generation, and the run goes on.
func TestAgentIsStopped(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := start(t, "--time", "6s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host")
	want := ""
	s.until("a stopped agent", func() bool {
		w, ok := s.worker("sink@host1")
		if !ok {
			return false
		}
		s.measuring()
		if unix.Kill(w.parent, unix.SIGSTOP) != nil {
			return false // its generation has ended
		}
		want = fmt.Sprintf("agent of host1 (process %d) is stopped (SIGSTOP)", w.parent)
		return true
	})
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0: %s", status, s.stderr.String())
	}
	contains(t, "stdout", oneLine(s.stdout.String()), "lost in generation", want)
}

// fault sends a signal to a worker of the bridge's lab on one host during a block. It repeats this until the records
// have the warning told.
func (s *session) fault(name string, sig unix.Signal, told string) {
	s.t.Helper()
	for {
		var victim member
		s.until("a worker", func() (ok bool) {
			victim, ok = s.worker(name)
			return ok
		})
		s.measuring() // its lab has been built
		before, _ := s.records()
		watch := witness.Begin(s.t)
		if err := unix.Kill(victim.pid, sig); errors.Is(err, unix.ESRCH) {
			continue // its generation has ended
		} else if err != nil {
			s.t.Fatal(err)
		}
		asked := time.Now()
		said, missed := false, false
		s.until("the warning", func() bool {
			log, _ := s.records()
			said = slices.ContainsFunc(log.Warnings, func(w measure.Warning) bool {
				return strings.HasPrefix(w.Cell+w.Lab, "bridge/same-host/") && strings.Contains(w.Text, told) &&
					strings.Contains(w.Text, name)
			})
			missed = len(log.Warnings) > len(before.Warnings) ||
				log.Blocks[len(log.Blocks)-1].Generation > before.Blocks[len(before.Blocks)-1].Generation
			return said || missed
		})
		if !said {
			// The worker was killed just before its lab was removed, and this had no effect. Or the warning was another
			// one, as for the first fault of a generation.
			continue
		}
		// A silent worker is waited for at most 10 s in a call, and about 2 s in a trial (control, traffic).
		limit := 12 * time.Second
		if sig == unix.SIGKILL {
			limit = 2 * time.Second
		}
		if took, seen := time.Since(asked), watch.Seen(s.t); took > limit+excuse(seen) {
			s.t.Errorf("it took %v until this was noticed, want at most %v (%v)", took, limit, seen)
		}
		return
	}
}

// oneLine joins the lines of a sentence that a table has wrapped.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
