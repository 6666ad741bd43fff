package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/measure"
)

// nobody is the id of an ordinary user without any privilege.
const nobody = 65534

func ordinary() *syscall.Credential { return &syscall.Credential{Uid: nobody, Gid: nobody} }

// ordinarily prepares a run of an ordinary user, in a directory that the user may write to.
func ordinarily(t *testing.T, args ...string) *session {
	t.Helper()
	s := prepare(t, filepath.Join(reachable(t), "run"), args...)
	s.cmd.SysProcAttr.Credential = ordinary()
	return s
}

// inside returns the process of the session that runs inside the user namespace.
func (s *session) inside() (_ member, ok bool) {
	for _, m := range s.members() {
		if len(m.args) > 1 && m.args[1] == "user-namespace" {
			return m, true
		}
	}
	return member{}, false
}

// An ordinary user measures the same as root: all cells of the default experiment. The files belong to the user, and
// the record says that it was measured in a user namespace.
func TestOrdinaryUser(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := ordinarily(t, "--time", "2s", "--trial", "50ms")
	s.begin()
	if status := s.wait(patience); status != 0 {
		t.Fatalf("exit status %d, want 0", status)
	}
	contains(t, "stdout", s.stdout.String(), "bridge", "baseline", "nettoll report "+s.dir)
	var run measure.Run
	data, err := os.ReadFile(filepath.Join(s.dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	if run.Facts["user_namespace"] != true {
		t.Errorf("run.json does not say that it was in a user namespace: %v", run.Facts["user_namespace"])
	}
	if refused, _ := run.Facts["not_granted"].([]any); len(refused) == 0 ||
		!strings.Contains(refused[0].(string), "SO_RCVBUFFORCE") {
		t.Errorf("run.json does not say what is not granted there: %v", run.Facts["not_granted"])
	}
	log, _ := s.records()
	measured := map[string]bool{}
	for _, r := range log.Trials {
		measured[r.Cell] = true
	}
	for _, c := range run.Cells {
		if !measured[c.ID] {
			t.Errorf("cell %s was not measured", c.ID)
		}
	}
	err = filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		var at unix.Stat_t
		if err == nil {
			err = unix.Stat(path, &at)
		}
		if err == nil && (at.Uid != nobody || at.Gid != nobody) {
			t.Errorf("%s belongs to %d:%d", path, at.Uid, at.Gid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if said := nettollAs(t, ordinary(), "report", s.dir); said.status != 0 {
		t.Errorf("report exits with %d: %s", said.status, said.stderr)
	}
}

// Root without capabilities, as in a container, is treated as an ordinary user.
func TestRootWithoutCapabilities(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := prepare(t, filepath.Join(reachable(t), "run"), "--time", "1s", "--workload", "udp-rr", "--placement", "same-host",
		"--network", "bridge")
	withoutCapabilities(s, "true", ",+setfcap")
	s.begin()
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	contains(t, "stdout", s.stdout.String(), "bridge", "baseline")

	// The kernel maps root only for a process with CAP_SETFCAP.
	s = prepare(t, filepath.Join(reachable(t), "run"), "--time", "1s")
	withoutCapabilities(s, "true", "")
	s.begin()
	if status := s.wait(soon * 10); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	contains(t, "stderr", s.stderr.String(), "missing the permission to make user namespaces", "CAP_SETFCAP",
		"docker run --privileged")
}

// withoutCapabilities has the session run a line of shell with all capabilities, and then start with only those kept.
func withoutCapabilities(s *session, line, kept string) {
	s.cmd.Args = append([]string{
		"sh", "-ec", line + `; exec setpriv --bounding-set=-all` + kept + ` --inh-caps=-all "$@"`, "sh", s.cmd.Path,
	}, s.cmd.Args[1:]...)
	s.cmd.Path = "/bin/sh"
}

// If no user namespace can be made, the error says why and gives a hint, and nothing is left half built. Wrong usage is
// still reported as wrong usage.
func TestNoUserNamespaces(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	limited := func(t *testing.T, args ...string) *session {
		s := prepare(t, filepath.Join(reachable(t), "run"), args...)
		withoutCapabilities(s, "echo 0 > /proc/sys/user/max_user_namespaces", "")
		inUserNamespace(s, "true")
		return s
	}
	s := limited(t)
	s.begin()
	if status := s.wait(soon * 10); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	contains(t, "stderr", s.stderr.String(), "nettoll: without CAP_SYS_ADMIN and CAP_NET_ADMIN: make a user namespace: "+
		"not supported here: missing room for more user namespaces",
		"sysctl user.max_user_namespaces is 0: sysctl -w user.max_user_namespaces=10000", "run as root")
	if lines := complaints(s); len(lines) != 1 {
		t.Errorf("stderr has %d sentences, want one: %q", len(lines), lines)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("there is a run directory: %v", err)
	}

	s = limited(t, "--network", "brigde")
	s.begin()
	if status := s.wait(soon * 10); status != 2 {
		t.Errorf("exit status %d, want 2", status)
	}
	contains(t, "stderr", s.stderr.String(), `unknown network "brigde"`)

	// doctor reports it for every part, together with the machine.
	s = limited(t)
	s.cmd.Args = append(s.cmd.Args[:slices.Index(s.cmd.Args, "run")], "doctor")
	s.begin()
	if status := s.wait(soon * 10); status != 1 {
		t.Errorf("doctor exits with %d, want 1", status)
	}
	contains(t, "doctor", s.stdout.String(), "✗ network     host ", "✗ workload    udp-rr ",
		"all of them: missing room for more user namespaces", "The default experiment cannot run here.",
		"user namespaces      not for ordinary users: sysctl user.max_user_namespaces is 0",
		"sysctl -w user.max_user_namespaces=10000")
	if strings.Contains(s.stdout.String(), "✓") {
		t.Error("doctor says that something works")
	}
}

// A process in a user namespace that nettoll made does not make another one.
func TestOneUserNamespace(t *testing.T) {
	testnet.Root(t)
	s := ordinarily(t)
	s.cmd.Args = slices.Insert(s.cmd.Args, 1, "user-namespace")
	s.begin()
	if status := s.wait(soon * 10); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	contains(t, "stderr", s.stderr.String(), "missing CAP_SYS_ADMIN and CAP_NET_ADMIN in the user namespace made for it")
}

// Doctor tries what an ordinary user can run, and says that it runs in a user namespace.
func TestDoctorOfOrdinaryUser(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	said := nettollAs(t, ordinary(), "doctor", "--json")
	var d struct {
		Default       string   `json:"default_experiment"`
		UserNamespace bool     `json:"user_namespace"`
		NotGranted    []string `json:"not_granted"`
		Parts         []struct {
			Kind, Name string
			Works      bool
			Tried      []struct {
				What    string
				Works   bool
				LeftOut string `json:"left_out"`
				Missing string
				Reason  string
			}
		}
	}
	if err := json.Unmarshal([]byte(said.stdout), &d); err != nil || said.status != 0 {
		t.Fatalf("%v; exit status %d: %s", err, said.status, said.stderr)
	}
	if d.Default != "can run" || !d.UserNamespace || len(d.NotGranted) == 0 {
		t.Errorf("default experiment %q, user namespace %v, not granted %q", d.Default, d.UserNamespace, d.NotGranted)
	}
	everywhere := []string{
		"network host", "network bridge", "network routed", "network nat", "network macvlan",
		"network passthrough", "runtime netns",
	}
	for _, p := range d.Parts {
		part := p.Kind + " " + p.Name
		if slices.Contains(everywhere, part) || p.Kind == "workload" {
			for _, tried := range p.Tried { // the program of a foreign workload may not be installed
				if foreign := p.Kind == "workload" && strings.HasPrefix(tried.Missing, "program "); !p.Works && !foreign {
					t.Errorf("%s does not work: %+v", part, p.Tried)
				}
			}
			continue
		}
		if p.Kind == "driver" {
			continue // its program may not be installed
		}
		// Other parts need a program or a kernel that may be missing here, and eBPF needs root. The result names what is
		// missing.
		for _, tried := range p.Tried {
			if !tried.Works && tried.LeftOut == "" && tried.Missing == "" {
				t.Errorf("%s, %s: does not work, and it is not said what is missing: %s", part, tried.What, tried.Reason)
			}
			if loads := slices.Contains([]string{"network ebpf", "filter ebpf", "probe softirq"}, part); loads && tried.Works {
				t.Errorf("%s, %s: works, and loads eBPF programs as an ordinary user", part, tried.What)
			}
		}
	}
}

// A run ends once and in good order, whichever process gets an interrupt from whichever sender. A second one ends it at
// once.
func TestInterruptOfOrdinaryUser(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	outside := func(signal unix.Signal) func(*session) error {
		return func(s *session) error { return unix.Kill(s.cmd.Process.Pid, signal) }
	}
	all := func(signal unix.Signal) func(*session) error {
		return func(s *session) error { return unix.Kill(-s.cmd.Process.Pid, signal) }
	}
	for _, tt := range []struct {
		name  string
		first func(*session) error
	}{
		{"Ctrl-C", all(unix.SIGINT)},
		{"SIGINT to the process started", outside(unix.SIGINT)},
		{"SIGTERM to the process started", outside(unix.SIGTERM)},
		{"timeout(1)", func(s *session) error {
			inside, ok := s.inside() // found before: timeout(1) sends both without a pause
			if !ok {
				return unix.ESRCH
			}
			if err := outside(unix.SIGTERM)(s); err != nil {
				return err
			}
			return unix.Kill(inside.pid, unix.SIGTERM)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ordinarily(t, "--time", "30s", "--network", "bridge")
			s.begin()
			s.measuring()
			if err := tt.first(s); err != nil {
				t.Fatal(err)
			}
			if status := s.wait(10 * time.Second); status != 130 {
				t.Errorf("exit status %d, want 130", status)
			}
			if n := strings.Count(s.stderr.String(), "nettoll: interrupted"); n != 1 {
				t.Errorf("it says %d times that it was interrupted: %s", n, &s.stderr)
			}
			contains(t, "stdout", s.stdout.String(), "baseline", "it was interrupted")
		})
	}
	t.Run("twice", func(t *testing.T) {
		s := ordinarily(t, "--time", "30s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host")
		s.twice(unix.SIGTERM, func() {
			if err := outside(unix.SIGTERM)(s); err != nil {
				t.Fatal(err)
			}
		}, soon)
	})
}

// If the process inside is killed, the one outside and everything else end.
func TestKilledInside(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := ordinarily(t, "--time", "30s", "--network", "bridge")
	s.begin()
	s.measuring()
	namespaces := s.namespaces()
	inside, ok := s.inside()
	if !ok {
		t.Fatal("there is no process inside")
	}
	watch, now := witness.Begin(t), time.Now()
	if err := unix.Kill(inside.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(5 * soon); status != 128+int(unix.SIGKILL) {
		t.Errorf("exit status %d, want %d", status, 128+int(unix.SIGKILL))
	}
	s.endedSoon(now, watch)
	s.leavesNothing(s.end)
	namespaces.areGone(t, now)
}

// endedSoon checks that the program has ended soon after a time, shortly before which the watch began.
func (s *session) endedSoon(since time.Time, watch *witness.Watch) {
	s.t.Helper()
	seen := watch.Seen(s.t)
	if took := s.end.Sub(since); took > soon+excuse(seen) {
		s.t.Errorf("it took %v, want at most %v (%v)", took, soon, seen)
	}
}

// The process inside ends with the one outside even if the kernel's death signal is lost: a pipe closes.
func TestOutsideIsGone(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	outside, alive, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t, filepath.Join(t.TempDir(), "run"), "--time", "30s", "--network", "bridge")
	s.cmd.Args = slices.Insert(s.cmd.Args, 1, "user-namespace", "--file", "outside=3")
	s.cmd.ExtraFiles = []*os.File{outside}
	s.begin()
	_ = outside.Close()
	s.measuring()
	watch, now := witness.Begin(t), time.Now()
	_ = alive.Close()
	if status := s.wait(5 * soon); status != 128+int(unix.SIGKILL) {
		t.Errorf("exit status %d, want %d", status, 128+int(unix.SIGKILL))
	}
	s.endedSoon(now, watch)
	s.leavesNothing(s.end)
}

// Both processes have the same standard streams, so pipes work.
func TestStreamsOfOrdinaryUser(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := ordinarily(t, "/dev/stdin", "--time", "1s")
	const file = `name: piped\nfactors: {network: [bridge], placement: [same-host]}\nworkloads: [udp-rr]\n`
	// The pipe belongs to the user, too.
	s.cmd.Args = append([]string{"sh", "-c", "printf '" + file + `' | "$@"`, "sh", s.cmd.Path}, s.cmd.Args[1:]...)
	s.cmd.Path = "/bin/sh"
	s.begin()
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	contains(t, "stdout", s.stdout.String(), "bridge", "baseline")
	if diff := cmp.Diff("", strings.Join(complaints(s), "\n")); diff != "" {
		t.Errorf("complaints: %s", diff)
	}
}
