package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// again starts `nettoll run --resume` on the directory of a session.
func (s *session) again() *session {
	o := prepare(s.t, s.dir)
	o.cmd.Args = []string{o.cmd.Args[0], "run", "--resume", s.dir}
	o.begin()
	return o
}

// A run that is killed at random moments, and interrupted once, is resumed to its end. It then has all generations and
// says how often it was resumed.
func TestResume(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	s := start(t, "--time", "3s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host")
	generations := func() int {
		log, _ := s.records()
		return len(log.Generations)
	}
	s.blocks(1)
	for i := range 3 {
		before := generations()
		if i == 1 {
			s.interrupt()
			if status := s.wait(10 * time.Second); status != 130 {
				t.Fatalf("exit status %d, want 130", status)
			}
			if said := strings.TrimSpace(s.stdout.String()); !strings.HasSuffix(said, "To continue: nettoll run --resume "+
				s.dir) && s.stdout.String() != "" {
				t.Errorf("its last line does not say how to resume it: %s", said)
			}
		} else {
			time.Sleep(time.Duration(random.Int64N(int64(900 * time.Millisecond))))
			if err := unix.Kill(s.cmd.Process.Pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if status := s.wait(10 * time.Second); status != 128+int(unix.SIGKILL) {
				t.Fatalf("it ended with exit status %d before it was killed: this shows nothing", status)
			}
			if said := nettoll(t, "report", s.dir); !strings.HasPrefix(said.stdout, "✗ This run did not end: ") {
				t.Errorf("the report of a killed run begins with %.200s", said.stdout)
			}
		}
		s = s.again()
		s.until("it has been resumed", func() bool {
			log, _ := s.records()
			return len(log.Resumes) == i+1
		})
		if now := generations(); now < before {
			t.Errorf("%d generations were measured to their end, and %d are left", before, now)
		}
		if busy := nettoll(t, "run", "--resume", s.dir); busy.status != 2 ||
			!strings.Contains(busy.stderr, "is still active") {
			t.Errorf("a second one that resumes it ends with %d: %s", busy.status, busy.stderr)
		}
	}
	if status := s.wait(patience); status != 0 {
		t.Fatalf("exit status %d, want 0: %s", status, &s.stderr)
	}
	d, problems, err := report.Load(s.dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	end := d.Log.End
	if end == nil || end.Why != measure.EndTime && end.Why != measure.EndPrecise || end.Resumed != 3 ||
		end.Generations < 5 || d.Analysis.Generations != end.Generations || len(d.Log.Generations) != end.Generations {
		t.Errorf("end %+v, %d generations in the records of %d", end, d.Analysis.Generations, len(d.Log.Generations))
	}
	numbers := map[int]bool{}
	for _, g := range d.Log.Generations {
		if numbers[g.Generation] {
			t.Errorf("two generations have the number %d", g.Generation)
		}
		numbers[g.Generation] = true
	}
	var after []string
	for _, r := range d.Log.Resumes {
		after = append(after, r.After)
	}
	if got := strings.Join(after, " "); got != "killed interrupted killed" {
		t.Errorf("it was resumed after %s", got)
	}
	contains(t, "the report", oneLine(s.stdout.String()), "Resumed 3 times (killed, ", "The run ended because")
	if over := nettoll(t, "run", "--resume", s.dir); over.status != 2 ||
		!strings.Contains(over.stderr, "it has ended, because") {
		t.Errorf("a run that ended is resumed: %d, %s", over.status, over.stderr)
	}
	if _, err := os.Stat(filepath.Join(s.dir, view.PageFile)); err != nil {
		t.Error(err)
	}
}

// killAgent kills the agent of the bridge's host during a block of a generation after the one given. It returns the
// generation in which the records report the death.
func (s *session) killAgent(after int) int {
	s.t.Helper()
	for {
		var w member
		s.until("a worker", func() (ok bool) {
			w, ok = s.worker("sink@host1")
			return ok
		})
		s.measuring()
		log, _ := s.records()
		at := log.Blocks[len(log.Blocks)-1].Generation
		if at <= after {
			continue
		}
		if err := unix.Kill(w.parent, unix.SIGKILL); errors.Is(err, unix.ESRCH) {
			continue
		} else if err != nil {
			s.t.Fatal(err)
		}
		told := len(log.Warnings)
		said, passed := false, false
		s.until("the warning", func() bool {
			log, _ := s.records()
			for _, x := range log.Warnings[told:] {
				said = said || strings.HasPrefix(x.Lab, "bridge/same-host/") &&
					strings.Contains(x.Text, "the lab was rebuilt")
			}
			passed = log.Blocks[len(log.Blocks)-1].Generation > at
			return said || passed
		})
		if said {
			return at
		}
	}
}

// If an agent dies, its lab loses a block and is rebuilt, in every generation in which that happens. The records count
// the deaths.
func TestAgentDies(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := start(t, "--time", "6s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host")
	noticed := map[int]bool{}
	for at := -1; len(noticed) < 2; noticed[at] = true {
		at = s.killAgent(at)
	}
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0: %s", status, &s.stderr)
	}
	log, _ := s.records()
	measured := map[int]bool{}
	for _, x := range log.Trials {
		if strings.HasPrefix(x.Cell, "bridge/") && x.Failed == "" {
			measured[x.Generation] = true
		}
	}
	for _, g := range log.Generations {
		if dead := g.Deaths["bridge/same-host/1"]; noticed[g.Generation] && dead == 0 || !noticed[g.Generation] && dead > 0 &&
			g.Lost == nil {
			t.Errorf("generation %d counts %v deaths", g.Generation, g.Deaths)
		}
		if !measured[g.Generation] {
			t.Errorf("generation %d has no trial of the bridge: %+v", g.Generation, g)
		}
		if len(g.Dropped) > 0 {
			t.Errorf("generation %d has dropped %v", g.Generation, g.Dropped)
		}
	}
}
