package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
)

// SeCoNetBench's authors saw this workload crash with a hundred connections. Here it holds ten thousand, and two
// thousand in CI, over a bridge and over the baseline, while two threads keep all CPUs busy. Each cell's sockets are
// made five times. All workers survive 15 trials, and each uses less than 100 MiB.
func TestTenThousandConnections(t *testing.T) {
	testnet.Root(t)
	const most = 100 << 20
	count, trial := 2000, 400*time.Millisecond
	if testnet.IsSlow() {
		count, trial = 10_000, 800*time.Millisecond
	}
	var over atomic.Bool
	defer over.Store(true)
	for range 2 {
		go func() {
			for !over.Load() {
			}
		}()
	}
	s := start(t, "--network", "bridge", "--placement", "same-host", "--time", "2s", "--trial", trial.String(), "--workload",
		fmt.Sprintf("connections(connections=%d)", count))
	s.measuring()
	s.until("a worker's memory", func() bool { // between two generations there are none
		looked := 0
		for _, m := range s.members() {
			if len(m.args) > 1 && m.args[1] == "worker" {
				if rss := memory(m.pid); rss > most {
					t.Errorf("%s has %d bytes", m, rss)
				} else if rss > 0 {
					looked++
				}
			}
		}
		return looked > 0
	})
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	log, _ := s.records()
	sound, setup := 0, 0.0
	for _, r := range log.Trials {
		if r.Failed != "" {
			t.Logf("%s: %s", r.Cell, r.Failed)
			continue
		}
		sound++
		setup = max(setup, r.Metrics["setup_time"])
		if n := r.Metrics["connections"]; n > float64(count) || n < float64(count/10) { // in 0.72 s, 6900 have their turn
			t.Errorf("%s: %g connections of %d carried something", r.Cell, n, count)
		}
	}
	t.Logf("%d of %d trials are sound; all connections were made within %.2f s", sound, len(log.Trials), setup)
	if len(log.Trials) < 15 || 10*sound < 8*len(log.Trials) {
		t.Errorf("%d of %d trials are sound, want 15, of which a starved machine may spoil some", sound, len(log.Trials))
	}
}

// memory returns the resident memory of a process in bytes; 0 if it has ended (proc_pid_status(5)).
func memory(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if found := regexp.MustCompile(`VmRSS:\s*(\d+) kB`).FindSubmatch(text); found != nil {
		kB, _ := strconv.Atoi(string(found[1]))
		return kB << 10
	}
	return 0
}
