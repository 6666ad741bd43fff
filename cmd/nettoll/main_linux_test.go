package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/runtime/dockertest"
)

// programEnv names the program under test. To test another one, set it: NETTOLL_PROGRAM=$PWD/bin/nettoll go test
// ./cmd/nettoll
const programEnv = "NETTOLL_PROGRAM"

// program is the name of the program.
const program = "nettoll"

// atOnce is how many parallel tests run at once, on any number of CPUs: most of a run is waiting, for packets,
// deadlines and the kernel that removes namespaces. A test that asserts a figure, or how fast something is done, is not
// parallel: it has the machine to itself.
const atOnce = 3

// TestMain builds the program once and runs the tests with it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program { // see build
		main()
	}
	dockertest.Main()
	if os.Getenv(programEnv) != "" {
		testnet.Main(m)
	}
	code, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// build builds the program in a directory where everyone may execute it, and runs this test binary again with it. It
// removes the program and returns the exit status. Without Go, as in a guest, a copy of this test binary is the program.
func build() (int, error) {
	dir, err := os.MkdirTemp("", "nettoll-program-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	path := filepath.Join(dir, program)
	tool := exec.Command("go", "build", "-o", path, ".")
	if _, err := exec.LookPath("go"); err != nil {
		tool = exec.Command("cp", fmt.Sprintf("/proc/%d/exe", os.Getpid()), path)
	}
	tool.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := tool.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, said)
	}
	tests := exec.Command("/proc/self/exe", append([]string{fmt.Sprintf("-test.parallel=%d", atOnce)}, os.Args[1:]...)...)
	tests.Args[0] = os.Args[0]
	tests.Env = append(os.Environ(), programEnv+"="+path)
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	tests.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the kernel sends the death signal when this thread ends
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := tests.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = tests.Process.Signal(s)
		}
	}()
	if err := tests.Wait(); tests.ProcessState.ExitCode() < 0 {
		return 0, err
	}
	return tests.ProcessState.ExitCode(), nil
}

// A session is a nettoll that a test has started as the leader of a Unix session, with all its processes.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string // the run directory; it does not exist yet
	mark   string // an environment variable of all its processes
	stdout text
	stderr text
	ended  chan struct{}
	end    time.Time // when the test saw it end
}

// text is a buffer that can be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// markEnv is the environment variable that marks the processes of a session.
const markEnv = "NETTOLL_TEST_SESSION"

var sessions atomic.Int64

// start starts `nettoll run` with these arguments and a run directory of its own.
func start(t *testing.T, args ...string) *session {
	t.Helper()
	s := prepare(t, filepath.Join(t.TempDir(), "run"), args...)
	s.begin()
	return s
}

// prepare makes a session of `nettoll run`. The caller may change it before begin starts it.
func prepare(t *testing.T, dir string, args ...string) *session {
	s := &session{t: t, dir: dir, ended: make(chan struct{})}
	s.mark = fmt.Sprintf("%s=%d.%d.", markEnv, os.Getpid(), sessions.Add(1))
	s.cmd = exec.Command(os.Getenv(programEnv), append([]string{"run", "-o", dir}, args...)...)
	s.cmd.Env = append(os.Environ(), s.mark)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return s
}

// neverRead returns the end of a pipe that is full and that nobody reads. Who writes to it waits for ever.
func neverRead(t *testing.T) *os.File {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	for page := make([]byte, os.Getpagesize()); ; {
		_, err := unix.Write(fds[1], page)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.SetNonblock(fds[1], false); err != nil {
		t.Fatal(err)
	}
	return w
}

func (s *session) begin() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // the process state has the exit status
		s.end = time.Now()
		close(s.ended)
	}()
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.ended
		s.leavesNothing(s.end)
		if s.t.Failed() {
			s.t.Logf("%s\nended with %v\nstdout:\n%s\nstderr:\n%s", s.cmd, s.cmd.ProcessState, &s.stdout, &s.stderr)
		}
	})
}

// wait waits at most limit until the program has ended. It returns the exit status as a shell would report it.
func (s *session) wait(limit time.Duration) int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.t.Fatalf("it has not ended after %v", limit)
	}
	status := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// interrupt does what Ctrl-C does: it sends a signal to each process of the session's foreground group.
func (s *session) interrupt() time.Time {
	s.t.Helper()
	now := time.Now()
	if err := unix.Kill(-s.cmd.Process.Pid, unix.SIGINT); err != nil {
		s.t.Fatalf("interrupt: %v", err)
	}
	return now
}

// patience is how long a test waits for a state before it fails. It shows nothing about speed: the machine may be busy.
const patience = 2 * time.Minute

// soon is the time within which all processes of a program end with it.
const soon = time.Second

// excuse is how much later something may be than if no other program runs. The tests that run in parallel are not other
// work to the witness, so what a thread waited for them counts, too. A machine that is busy all the time would excuse
// everything.
func excuse(seen witness.Seen) time.Duration {
	return min(max(seen.Waited, seen.Excuse()), 20*time.Second)
}

// leavesNothing checks that no process of the session is left a second after its end. A process that was killed gets
// more time, because a busy kernel ends it late, just as it removes namespaces late.
func (s *session) leavesNothing(end time.Time) {
	s.t.Helper()
	for {
		left := s.members()
		if len(left) == 0 {
			return
		}
		living := slices.ContainsFunc(left, func(m member) bool { return !m.killed() })
		if waited := time.Since(end); waited > 5*soon || living && waited > soon {
			s.t.Errorf("%v after its end these processes are left: %v", waited, left)
			for _, m := range left {
				_ = unix.Kill(m.pid, unix.SIGKILL) // it may have ended
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// member is a process of a session.
type member struct {
	pid, parent int
	args        []string
}

func (m member) String() string { return fmt.Sprintf("%d %q", m.pid, strings.Join(m.args, " ")) }

// killed reports whether the process has a pending SIGKILL, or has ended. The masks are of signals that are pending for
// the first thread and for all threads (proc_pid_status(5)).
func (m member) killed() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.pid))
	if err != nil {
		return true // it has ended
	}
	for line := range strings.Lines(string(text)) {
		name, mask, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if pending, err := strconv.ParseUint(mask, 16, 64); err == nil && pending&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// links lists the links of the network namespace that the process is in.
func (m member) links() []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", m.pid))
	if err != nil {
		return nil // it has ended
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// members lists the living processes of the session, in all of its PID namespaces.
func (s *session) members() []member {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []member
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), s.mark) {
			continue
		}
		m := member{pid: pid}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		m.args = strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PPID …; proc_pid_stat(5)
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 1 {
			m.parent, _ = strconv.Atoi(f[1])
		}
		found = append(found, m)
	}
	return found
}

// worker returns a worker of this name in the lab of a bridge on one host, except the known ones. If there is none now,
// ok is false.
func (s *session) worker(name string, known ...int) (_ member, ok bool) {
	for _, m := range s.members() {
		if len(m.args) < 4 || m.args[1] != "worker" || m.args[3] != name || slices.Contains(known, m.pid) {
			continue
		}
		if links := m.links(); slices.Contains(links, "br0") && !slices.Contains(links, "up0") {
			return m, true
		}
	}
	return member{}, false
}

// records returns the records so far. torn is true if the last line is incomplete, which is not an error.
func (s *session) records() (log *measure.Log, torn bool) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "records.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return &measure.Log{}, false
	}
	if err != nil {
		s.t.Fatal(err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	log, problems, err := measure.Read(bytes.NewReader(whole))
	if err != nil {
		s.t.Fatal(err)
	}
	torn = len(whole) < len(data)
	for _, p := range problems {
		if unsealed := p.Line == 0 && log.Unfinished > 0; torn && unsealed {
			continue // the checksum comes after the incomplete line
		}
		s.t.Errorf("%s: %v", s.dir, p)
	}
	return log, torn
}

// until waits until f returns true.
func (s *session) until(what string, f func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for !f() {
		select {
		case <-s.ended:
			s.t.Fatalf("it ended before %s", what)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s did not come about within %v", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// measuring waits until one more block has been recorded.
func (s *session) measuring() {
	s.t.Helper()
	before, _ := s.records()
	s.blocks(len(before.Blocks) + 1)
}

// blocks waits until n blocks have been recorded.
func (s *session) blocks(n int) {
	s.t.Helper()
	s.until("a block", func() bool {
		log, _ := s.records()
		return len(log.Blocks) >= n
	})
}

// output is the output and the exit status of a command.
type output struct {
	stdout, stderr string
	status         int
}

// nettoll runs a command to its end.
func nettoll(t *testing.T, args ...string) output {
	t.Helper()
	return nettollAs(t, nil, args...)
}

// nettollAs runs a command as another user.
func nettollAs(t *testing.T, user *syscall.Credential, args ...string) output {
	t.Helper()
	return nettollIn(t, user, nil, args...)
}

// nettollIn runs a command as another user, and with more in its environment.
func nettollIn(t *testing.T, user *syscall.Credential, env []string, args ...string) output {
	t.Helper()
	cmd := exec.Command(os.Getenv(programEnv), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// contains checks that a text contains all of these strings, in any order.
func contains(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, text)
		}
	}
}
