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

// crowded is the id of a user who runs nothing else.
const crowded = 64_002

// limited starts a session with a limit that a command of bash sets before the program starts.
func (s *session) limited(limit string) {
	s.t.Helper()
	bash := testnet.Program(s.t, "bash", "bash") // the ulimit of other shells has no -u
	s.cmd.Args = append([]string{"bash", "-c", limit + ` && exec "$0" "$@"`, s.cmd.Path}, s.cmd.Args[1:]...)
	s.cmd.Path = bash
	s.begin()
}

// few returns the flags of a run that needs about 100 processes and threads.
func few() []string {
	return []string{"--time", "2s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host"}
}

// A run that needs more processes and threads than an ordinary user may have is refused before anything is built. The
// error has the limit and a hint.
func TestUserLimit(t *testing.T) {
	testnet.Root(t) // to become another user; root itself is exempt from the limit
	t.Parallel()
	for most, want := range map[uint64]struct {
		status int
		said   string
	}{
		6:  {1, "too few threads are allowed"}, // the Go runtime has three to five at once
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

// A run that may open too few files is refused when it starts a host.
func TestFileLimit(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := prepare(t, filepath.Join(t.TempDir(), "run"), few()...)
	s.limited("ulimit -n 16")
	if status := s.wait(patience); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	contains(t, "stderr", oneLine(s.stderr.String()), "too many open files: ulimit -n (RLIMIT_NOFILE) is 16 (hint: raise "+
		"it")
	if strings.Contains(s.stderr.String(), "goroutine ") {
		t.Errorf("a traceback: %s", &s.stderr)
	}
}

// A process with so little memory that it would crash in the middle of a run is refused, too.
func TestMemoryLimit(t *testing.T) {
	testnet.Program(t, "bash", "bash")
	t.Parallel()
	for limit, want := range map[string]string{
		"ulimit -d 80000":  "ulimit -d (RLIMIT_DATA) is 78 MiB (hint: raise it)",
		"ulimit -v 870000": "ulimit -v (RLIMIT_AS) is 849 MiB (hint: raise it)",
	} {
		s := prepare(t, filepath.Join(t.TempDir(), "run"), few()...)
		s.limited(limit)
		if status := s.wait(patience); status != 1 {
			t.Errorf("%s: exit status %d, want 1", limit, status)
		}
		contains(t, "stderr", oneLine(s.stderr.String()), "too little memory is allowed", want)
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

// join returns the shell command that enters a control group.
func join(dir string) string { return fmt.Sprintf("echo $$ > %s/cgroup.procs", dir) }

// The same holds in a control group, and for a plan, which builds nothing.
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

// If a limit is lowered during the measurement, the error names it, and no traceback is printed.
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
