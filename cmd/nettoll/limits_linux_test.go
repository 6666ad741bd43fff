package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

// crowded is a user of whom nothing else runs.
const crowded = 64_002

// limited starts a session for which a limit holds from its first instruction on: a command of bash sets it.
func (s *session) limited(limit string) {
	s.t.Helper()
	bash := testnet.Program(s.t, "bash", "bash") // the ulimit of other shells has no -u
	s.cmd.Args = append([]string{"bash", "-c", limit + ` && exec "$0" "$@"`, s.cmd.Path}, s.cmd.Args[1:]...)
	s.cmd.Path = bash
	s.begin()
}

// few are the flags of a run that needs 100 processes and threads or so.
func few() []string {
	return []string{"--time", "2s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host"}
}

// A run that needs more processes and threads than an ordinary user may have is refused before anything is built, with
// the limit and what would help.
func TestUserLimit(t *testing.T) {
	testnet.Root(t) // who is exempt from it, to become somebody else
	t.Parallel()
	for most, want := range map[uint64]struct {
		status int
		said   string
	}{
		16: {1, "too few threads are allowed"},
		60: {2, "processes and threads, and there is room for"},
	} {
		t.Run(strconv.FormatUint(most, 10), func(t *testing.T) {
			s := prepare(t, filepath.Join(reachable(t), "run"), few()...)
			s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: crowded, Gid: crowded}
			s.limited(fmt.Sprintf("ulimit -u %d", most))
			if status := s.wait(patience); status != want.status {
				t.Errorf("exit status %d, want %d", status, want.status)
			}
			contains(t, "stderr", oneLine(s.stderr.String()), want.said,
				fmt.Sprintf("ulimit -u (RLIMIT_NPROC) is %d, and ", most), "raise it with ulimit -u")
			if _, err := os.Stat(s.dir); err == nil {
				t.Errorf("there is a run directory")
			}
		})
	}
}

// pids makes a control group with a limit on processes and threads.
func pids(t *testing.T, most int) (dir string) {
	t.Helper()
	parent := "/sys/fs/cgroup/pids"
	if _, err := os.Stat(parent); err != nil {
		parent = "/sys/fs/cgroup"
	}
	dir = filepath.Join(parent, fmt.Sprintf("limited-%d-%d", os.Getpid(), most))
	if err := os.Mkdir(dir, 0o755); err != nil {
		testnet.Skip(t, &linux.UnsupportedError{What: "make a control group", Missing: "the pids controller", Err: err})
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := allow(dir, most); err != nil {
		testnet.Skip(t, &linux.UnsupportedError{What: "limit a control group", Missing: "the pids controller", Err: err})
	}
	return dir
}

func allow(dir string, most int) error {
	return os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(most)), 0)
}

// join is the command of a shell that enters a control group.
func join(dir string) string { return fmt.Sprintf("echo $$ > %s/cgroup.procs", dir) }

// So it is in a control group, and for a plan, which builds nothing.
func TestGroupLimit(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	dir := pids(t, 60)
	s := prepare(t, filepath.Join(t.TempDir(), "run"), few()...)
	s.limited(join(dir))
	if status := s.wait(patience); status != 2 {
		t.Errorf("exit status %d, want 2", status)
	}
	want := []string{
		"processes and threads, and there is room for",
		fmt.Sprintf("pids.max of the control group %q is 60, and ", "/"+filepath.Base(dir)), "docker run --pids-limit",
	}
	contains(t, "stderr", oneLine(s.stderr.String()), want...)

	plan := prepare(t, t.TempDir())
	plan.cmd = exec.Command(os.Getenv(programEnv), append([]string{"plan"}, few()...)...)
	plan.cmd.Stdout, plan.cmd.Stderr, plan.cmd.SysProcAttr = &plan.stdout, &plan.stderr, &syscall.SysProcAttr{Setsid: true}
	plan.limited(join(dir))
	if status := plan.wait(patience); status != 2 {
		t.Errorf("plan: exit status %d, want 2", status)
	}
	contains(t, "stderr of plan", oneLine(plan.stderr.String()), want...)
}

// A limit that is lowered while it is measured is named, and no traceback is printed.
func TestGroupLimitIsLowered(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	dir := pids(t, 1000)
	s := prepare(t, filepath.Join(t.TempDir(), "run"), few()...)
	s.limited(join(dir))
	s.measuring()
	now, err := os.ReadFile(filepath.Join(dir, "pids.current"))
	if err != nil {
		t.Fatal(err)
	}
	used, err := strconv.Atoi(strings.TrimSpace(string(now)))
	if err != nil {
		t.Fatal(err)
	}
	most := used / 2
	if err := allow(dir, most); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(patience); status == 0 {
		t.Errorf("exit status 0, though %d processes and threads were one too many", used)
	}
	said := oneLine(s.stdout.String() + s.stderr.String())
	contains(t, "output", said, "the limit of processes and threads is reached",
		fmt.Sprintf("pids.max of the control group %q is %d, and ", "/"+filepath.Base(dir), most))
	if strings.Contains(said, "goroutine ") || strings.Contains(said, "runtime stack") {
		t.Errorf("a traceback: %s", said)
	}
}
