package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// The eBPF programs and maps of a probe are gone soon after the run, whether it ends or is killed. They end with its
// last process. On a busy machine the kernel may free them late, so these get more time than the processes.
func TestProbeIsGone(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	for name, kill := range map[string]bool{"at the end": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "--time", "2s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host", "--probe",
				"softirq")
			s.measuring()
			// While the probe is on, half of the time, its programs are attached by links.
			held := map[string]uint32{}
			for began := time.Now(); count(held, "link_id") < 2; held = s.held() {
				if time.Since(began) > 10*time.Second {
					t.Fatalf("the probe is never on: %v", held)
				}
			}
			if count(held, "prog_id") != 2 || count(held, "map_id") != 1 {
				t.Errorf("its processes hold %v, want 2 programs, 1 map and 2 links", held)
			}
			if kill {
				if err := unix.Kill(s.cmd.Process.Pid, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			now := time.Now()
			status := s.wait(patience)
			if !kill {
				now = s.end
				if status != 0 {
					t.Errorf("exit status %d, want 0", status)
				}
			}
			s.leavesNothing(s.end)
			for what, id := range held {
				for loaded(what, id) {
					if waited := time.Since(now); waited > 5*soon {
						t.Errorf("%s is in the kernel %v after the run", what, waited)
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
}

// held returns the eBPF programs, maps and links that processes of the session hold, by their open files.
func (s *session) held() map[string]uint32 {
	held := map[string]uint32{}
	for _, m := range s.members() {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", m.pid)) // the only error is a malformed pattern
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				continue // closed meanwhile
			}
			for line := range strings.Lines(string(b)) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
				if id, err := strconv.ParseUint(value, 10, 32); err == nil &&
					(key == "prog_id" || key == "map_id" || key == "link_id") {
					held[key+" "+value] = uint32(id)
				}
			}
		}
	}
	return held
}

func count(held map[string]uint32, kind string) int {
	n := 0
	for what := range held {
		if strings.HasPrefix(what, kind) {
			n++
		}
	}
	return n
}

// loaded reports whether the kernel still has a program or a map. It does not look for links: they end with their
// programs.
func loaded(what string, id uint32) bool {
	var err error
	switch {
	case strings.HasPrefix(what, "prog_id"):
		var p *ebpf.Program
		p, err = ebpf.NewProgramFromID(ebpf.ProgramID(id))
		_ = p.Close()
	case strings.HasPrefix(what, "map_id"):
		var m *ebpf.Map
		m, err = ebpf.NewMapFromID(ebpf.MapID(id))
		_ = m.Close()
	default:
		return false
	}
	return !errors.Is(err, os.ErrNotExist)
}

// An ordinary user cannot attach to tracepoints. The error says so with a hint, before anything is built.
func TestProbeOfOrdinaryUser(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := ordinarily(t, "--time", "1s", "--network", "bridge", "--probe", "softirq")
	s.begin()
	if status := s.wait(patience); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	contains(t, "stderr", oneLine(s.stderr.String()),
		"load the softirq probe: not supported here: missing CAP_BPF and CAP_PERFMON", "run as root")
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a run directory: %v", err)
	}
	if s.stdout.String() != "" {
		t.Errorf("it says %q", s.stdout.String())
	}
}
