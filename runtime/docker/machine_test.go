package docker_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/runtime/dockertest"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// onMachine is the runtime with the machine's daemon as its default.
type onMachine struct{ docker.Runtime }

func (onMachine) Describe() runtime.Description {
	d := docker.Runtime{}.Describe()
	for i, p := range d.Params {
		if p.Name == "use" {
			d.Params[i].Default = "machine"
		}
	}
	return d
}

// TestMachine has a daemon that is not ours make containers as those of a host do, and wants everything that it had
// before to be as it was.
func TestMachine(t *testing.T) {
	theirs := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", theirs.Host)
	untouched := theirs.Inhabit()
	runtimetest.Conformance(t, onMachine{})
	want := runtimetest.Want{
		Capabilities: runtimetest.Usual, Root: []string{".dockerenv", "dev", "etc", "nettoll", "nettoll.sock", "proc", "sys"},
		NewPrivileges: true, Filtered: true, Writable: true,
	}
	runtimetest.Inhabited(t, docker.Runtime{}, map[string]string{"use": "machine"}, want)
	runtimetest.Confined(t, docker.Runtime{}, map[string]string{"use": "machine"}, want)
	untouched()
}

// TestMachineTaken wants a container of the machine's daemon to be gone whose network namespace cannot have its name.
func TestMachineTaken(t *testing.T) {
	theirs := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", theirs.Host)
	untouched := theirs.Inhabit()
	k := runtimetest.Kernel(t, testnet.New(t))
	var s host.Stack
	err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		host.Namespace{Name: "src0"},
		docker.Machine{},
		docker.Container{Contained: runtime.Contained{Name: "src0", Namespace: "src0"}, Machine: true},
	}})
	if err == nil || !strings.Contains(err.Error(), "make container src0: bind network namespace: ") {
		t.Errorf("a container whose name is taken: %v", err)
	}
	untouched()
}

// TestMachineRefuses wants to be told why there is no daemon for labs, and what would help.
func TestMachineRefuses(t *testing.T) {
	theirs := dockertest.Start(t)
	link := strings.TrimPrefix(theirs.Host, "unix://")
	if said, err := (docker.Runtime{}).Daemon(t.Context()); err == nil {
		t.Logf("the machine's own daemon is %q", said)
		if strings.Contains(said, link) {
			t.Error("it is not that of the test")
		}
	}
	t.Setenv("DOCKER_HOST", theirs.Host)
	if said, err := (docker.Runtime{}).Daemon(t.Context()); err != nil || !strings.HasSuffix(said, " at "+link) {
		t.Errorf("the daemon is %q (%v), want a version and its socket", said, err)
	}
	theirs.Signal(syscall.SIGSTOP)
	other := filepath.Join(filepath.Dir(link), "other.sock")
	l, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { _ = http.Serve(l, http.NotFoundHandler()) }() //nolint:gosec // its only client is this test
	for _, c := range []struct{ name, host, missing, hint string }{
		{"taken by another program", "unix://" + other, "a daemon that answers at " + other, "docker(use=own)"},
		{"stopped", theirs.Host, "a daemon that answers at " + link, "docker(use=own)"},
		{"absent", "unix:///no/such.sock", "a daemon that answers at /no/such.sock", "systemctl start docker"},
		{"remote", "tcp://192.0.2.1:2375", "a daemon on this machine", "unset DOCKER_HOST"},
		{"invalid", "nonsense", "a daemon on this machine", "unset DOCKER_HOST"},
		{"unknown context", "", "a valid context of docker", "docker context ls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", c.host)
			if t.Setenv("DOCKER_CONTEXT", "no-such-context"); c.host == "" {
				if err := os.Unsetenv("DOCKER_HOST"); err != nil { // set and empty, it chooses the default for some clients
					t.Fatal(err)
				}
			}
			_, err := docker.Runtime{}.Daemon(t.Context())
			u, is := errors.AsType[*linux.UnsupportedError](err)
			if !is || !strings.HasPrefix(u.Missing, c.missing) || !strings.Contains(u.Hint, c.hint) {
				t.Errorf("it says %v, want that %q is missing, and the hint %q", err, c.missing, c.hint)
			}
		})
	}
	theirs.Signal(syscall.SIGCONT)
}

// borrowed has a container in the machine's Docker.
func borrowed(t *testing.T) (theirs *dockertest.Daemon, k *host.Kernel, s *host.Stack) {
	t.Helper()
	theirs = dockertest.Start(t)
	t.Setenv("DOCKER_HOST", theirs.Host)
	k, s = runtimetest.Kernel(t, testnet.New(t)), new(host.Stack)
	if err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		docker.Machine{},
		docker.Container{Contained: runtime.Contained{Name: "src0", Namespace: "src0"}, Machine: true},
	}}); err != nil {
		t.Fatal(err)
	}
	return theirs, k, s
}

// TestMachineDies wants the daemon to be named that does not answer, and what is left of its containers to go once it
// runs again.
func TestMachineDies(t *testing.T) {
	theirs, k, s := borrowed(t)
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	worker, err := k.Resident("src0")
	if err != nil {
		t.Fatal(err)
	}
	theirs.Signal(syscall.SIGKILL)
	named := "the machine's Docker at " + theirs.Socket
	if err := s.Verify(t.Context(), k); err != nil {
		t.Errorf("Verify without the daemon, whose container still runs: %v", err)
	}
	var other host.Stack
	if err := other.Apply(t.Context(), k, host.Plan{Steps: []host.Step{docker.Machine{}}}); err == nil ||
		!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), theirs.Socket) ||
		strings.Contains(err.Error(), "/proc/") {
		t.Errorf("another image without the daemon: %v", err)
	}
	worker.Kill()
	if how := worker.How(); !strings.Contains(how, named+" does not answer") {
		t.Errorf("the worker has ended: %q", how)
	}
	if err := s.Undo(t.Context(), k); err == nil || !strings.Contains(err.Error(), named) ||
		strings.Contains(err.Error(), "/proc/") {
		t.Errorf("Undo without the daemon: %v", err)
	}
	theirs.Again()
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
	if left := theirs.Docker("ps", "--all", "--quiet") + theirs.Docker("images", "--quiet"); left != "" {
		t.Errorf("Docker still has %q", left)
	}
}

// TestMachineStopped wants a worker to end that is stopped, and so does not see the end of its input.
func TestMachineStopped(t *testing.T) {
	theirs, k, s := borrowed(t)
	worker, err := k.Resident("src0")
	if err != nil {
		t.Fatal(err)
	}
	name := theirs.Docker("ps", "--filter", "label=nettoll.run=test", "--filter", "label=nettoll.container=src0", "--format",
		"{{.Names}}")
	pid, err := strconv.Atoi(theirs.Docker("inspect", "--format", "{{.State.Pid}}", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	worker.Kill()
	select {
	case <-worker.Done:
	case <-time.After(10 * time.Second):
		t.Error("a worker that is stopped does not end")
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}
