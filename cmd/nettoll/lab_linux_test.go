package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testnet"
)

// labsDown takes down labs that a failed test may have left in a runtime directory.
func labsDown(t interface{ Log(...any) }, runtime string) {
	if _, err := os.Stat(runtime); err != nil {
		return
	}
	cmd := exec.Command(os.Getenv(programEnv), "lab", "down", "--all")
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtime)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Log("lab down --all:", err, string(said))
	}
}

// laboratory prepares `nettoll lab` with these arguments in a runtime directory of its own. The session is marked like
// that of a run.
func laboratory(t *testing.T, user *syscall.Credential, args ...string) *session {
	t.Helper()
	dir := filepath.Join(reachable(t), "runtime")
	s := prepare(t, dir)
	s.cmd.Args = append([]string{s.cmd.Path, "lab"}, args...)
	s.cmd.Env = append(s.cmd.Env, "XDG_RUNTIME_DIR="+dir)
	s.cmd.Dir = "/"
	s.cmd.SysProcAttr.Credential = user
	return s
}

// labs returns the labs in `nettoll lab list` and the files that are in the registry then.
func (s *session) labs() (owners []int, left []string) {
	s.t.Helper()
	cmd := exec.Command(s.cmd.Path, "lab", "list", "--json")
	cmd.Env, cmd.SysProcAttr = s.cmd.Env, &syscall.SysProcAttr{Credential: s.cmd.SysProcAttr.Credential}
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("lab list: %v", err)
	}
	var list []struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		s.t.Fatal(err)
	}
	for _, l := range list {
		owners = append(owners, l.PID)
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "nettoll", "labs"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return owners, left
}

// Killing the owner of a lab ends the lab, for root and for an ordinary user. The next command removes its entry.
func TestLabOwnerKilled(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	for name, user := range map[string]*syscall.Credential{"root": nil, "ordinary user": ordinary()} {
		t.Run(name, func(t *testing.T) {
			s := laboratory(t, user, "up", "--stack", "nat", "--placement", "cross-host", "--time", "30s")
			if err := s.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := s.cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, s.stderr.String())
			}
			owners, _ := s.labs()
			namespaces := s.namespaces()
			if len(owners) != 1 || len(namespaces) == 0 {
				t.Fatalf("labs of %v stand with %d namespaces, want one", owners, len(namespaces))
			}
			if err := unix.Kill(owners[0], unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			s.leavesNothing(now)
			namespaces.areGone(t, now)
			if owners, left := s.labs(); len(owners) != 0 || len(left) != 0 {
				t.Errorf("labs of %v stand, and %q is left", owners, left)
			}
		})
	}
}

// An interrupt removes a half-built lab, and so does the death of the process that waits for it.
func TestLabUpInterrupted(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	for _, c := range []struct {
		name   string
		user   *syscall.Credential
		signal syscall.Signal
		status int
	}{
		{"interrupt", nil, unix.SIGINT, 130},
		{"interrupt of an ordinary user", ordinary(), unix.SIGINT, 130},
		{"kill", nil, unix.SIGKILL, 128 + 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := laboratory(t, c.user, "up", "--stack", "bridge", "--pairs", "150", "--time", "30s")
			s.begin()
			s.until("a host", func() bool {
				for _, m := range s.members() {
					if len(m.args) > 1 && m.args[1] == "agent" {
						return true
					}
				}
				return false
			})
			if err := unix.Kill(-s.cmd.Process.Pid, c.signal); err != nil {
				t.Fatal(err)
			}
			if status := s.wait(5 * time.Second); status != c.status {
				t.Errorf("exit status %d, want %d", status, c.status)
			}
			if c.signal == unix.SIGINT {
				contains(t, "stderr", s.stderr.String(), `interrupted: lab "bridge" is taken down`)
			}
			s.leavesNothing(s.end)
			if owners, left := s.labs(); len(owners) != 0 || len(left) != 0 {
				t.Errorf("labs of %v stand, and %q is left", owners, left)
			}
		})
	}
}

// A lab can be taken down even if its owner hangs.
func TestLabOwnerHangs(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := laboratory(t, nil, "up", "--stack", "bridge", "--time", "1m")
	if err := s.cmd.Run(); err != nil {
		t.Fatal(err)
	}
	owners, _ := s.labs()
	if err := unix.Kill(owners[0], unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	down := exec.Command(s.cmd.Path, "lab", "down")
	down.Env = s.cmd.Env
	if said, err := down.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	s.leavesNothing(time.Now())
	if owners, left := s.labs(); len(owners) != 0 || len(left) != 0 {
		t.Errorf("labs of %v stand, and %q is left", owners, left)
	}
}

// If no lab can be built, the user learns why, and nothing is registered.
func TestLabWithoutPrivilege(t *testing.T) {
	testnet.Root(t)
	s := laboratory(t, nil, "up", "--stack", "bridge")
	withoutCapabilities(s, "echo 0 > /proc/sys/user/max_user_namespaces", "")
	inUserNamespace(s, "true")
	s.begin()
	if status := s.wait(5 * time.Second); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	contains(t, "stderr", s.stderr.String(), "make a user namespace: not supported here", "run as root")
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("there is a registry: %v", err)
	}
}

// Root with another user's runtime directory, as after su, has labs of its own. Root does not write through that user's
// symbolic links, and a command gets only the variables that are named.
func TestLabInRuntimeDirOfAnother(t *testing.T) {
	testnet.Root(t)
	s := laboratory(t, nil, "up", "--stack", "bridge", "--time", "1m")
	theirs, victim := filepath.Join(filepath.Dir(s.dir), "theirs"), t.TempDir()
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.Symlink(victim, filepath.Join(theirs, "nettoll")),
		os.Chown(theirs, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	s.cmd.Env = append(s.cmd.Env, "XDG_RUNTIME_DIR="+theirs, "SECRET=word", "NAMED=given")
	defer labsDown(t, theirs)
	if err := s.cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, s.stderr.String())
	}
	contains(t, "stderr", s.stderr.String(), "belongs to another user: your labs are in \"/run/nettoll/labs\"")
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Errorf("where the link leads there is %v, %v", left, err)
	}
	if left, err := os.ReadDir("/run/nettoll/labs"); err != nil || len(left) != 1 {
		t.Errorf("root's registry has %v, %v", left, err)
	}
	cmd := exec.Command(s.cmd.Path, "lab", "exec", "--env", "NAMED", "--env", "MADE=here", "h1", "--", "env")
	cmd.Env = s.cmd.Env
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "the environment", string(out), "PATH=", "NETTOLL_AT=h1", "NAMED=given", "MADE=here")
	if strings.Contains(string(out), "SECRET") || strings.Contains(string(out), "XDG_RUNTIME_DIR") {
		t.Errorf("the environment is\n%s", out)
	}
}

// On a terminal a command has a terminal of its own. A shell there has job control, the size of the terminal, and can
// interrupt its jobs.
func TestLabTerminal(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := laboratory(t, nil, "up", "--stack", "bridge", "--time", "30s")
	if err := s.cmd.Run(); err != nil {
		t.Fatal(err)
	}
	defer labsDown(t, s.dir)
	cmd := exec.Command(s.cmd.Path, "lab", "exec", "h1/src0", "--", "sh", "-mc", "tty; stty size; sleep 30 & jobs; exit 5")
	cmd.Env = s.cmd.Env
	text, status := typing(t, cmd, 77, "")
	if !strings.Contains(text, "25 77\n") || !strings.Contains(text, "/dev/pts/") || !strings.Contains(text, "Running") ||
		strings.Contains(text, "job control") {
		t.Errorf("a command on a terminal says:\n%s", text)
	}
	if status != 5 {
		t.Errorf("exit status %d, want 5", status)
	}
	// The job itself says that it is ready, and is not a shell: a shell that gets the interrupt just before it starts a
	// job waits for the end of that job.
	const job = `awk 'BEGIN { print "ready"; fflush(); getline }'`
	cmd = exec.Command(s.cmd.Path, "lab", "exec", "h1/src0", "--", "sh", "-c",
		"trap 'echo interrupted; exit 6' INT; "+job+"; sleep 20")
	cmd.Env = s.cmd.Env
	began := time.Now()
	text, status = typing(t, cmd, 77, "\x03")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("Ctrl-C did not interrupt the job: it ended after %v", took)
	}
	if !strings.Contains(text, "interrupted") || status != 6 {
		t.Errorf("Ctrl-C: exit status %d, and it says:\n%s", status, text)
	}
}

// typing runs a command on a terminal as a shell does, and types the keys once the command says that it is ready. It
// returns the output, with "\n" at the ends of lines, and the exit status.
func typing(t *testing.T, cmd *exec.Cmd, columns uint16, keys string) (shown string, status int) {
	t.Helper()
	terminal, theirs, err := process.NewTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: columns}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	all := make(chan string)
	go func() {
		var text strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := terminal.Read(buf)
			text.Write(buf[:n])
			if keys != "" && strings.Contains(text.String(), "ready") {
				_, _ = terminal.WriteString(keys)
				keys = ""
			}
			if err != nil { // EIO: nobody has the other end any more, pty(7)
				all <- text.String()
				return
			}
		}
	}()
	_ = cmd.Wait() // the process state has the exit status
	return strings.ReplaceAll(<-all, "\r\n", "\n"), cmd.ProcessState.ExitCode()
}
