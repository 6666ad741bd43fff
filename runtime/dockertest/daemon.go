package dockertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
)

// role is the first argument of a process that guards a daemon. The others are the daemon's directory and its socket.
const role = "guard-docker"

// Main guards a daemon and ends the process, if that was started to do so. TestMain calls it first.
func Main() {
	if len(os.Args) == 4 && os.Args[1] == role {
		os.Exit(guard(os.Args[2], os.Args[3], os.Stdin, os.Stdout, os.Stderr))
	}
}

// A Daemon is a daemon with its own root, state and socket, in mount and network namespaces of its own.
type Daemon struct {
	// Socket is the path of its socket, which is in /run as that of a machine is. Host is what DOCKER_HOST has to be, by a
	// symbolic link.
	Socket, Host string

	t   testing.TB
	dir string
	in  io.Writer
	out *bufio.Reader
}

// Start starts a daemon. It ends with the test, also if that is killed. It skips the test if Docker is not installed.
func Start(t testing.TB) *Daemon {
	t.Helper()
	testnet.Root(t)
	for _, program := range []string{"dockerd", "docker", "containerd"} {
		testnet.Program(t, program, "docker.io")
	}
	dir, err := os.MkdirTemp("", "docker-") //nolint:usetesting // the path of t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp("/run", "docker-") //nolint:usetesting // hosts of labs do not see this one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	link := filepath.Join(dir, "link.sock")
	d := &Daemon{Socket: filepath.Join(state, "docker.sock"), Host: "unix://" + link, t: t, dir: dir}
	if err := os.Symlink(d.Socket, link); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("/proc/self/exe", role, dir, d.Socket)
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	isolate(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the guard of dockerd: %v", err)
		}
		if t.Failed() {
			text := said.Bytes()
			t.Logf("dockerd said:\n%s", text[max(0, len(text)-8000):])
		}
	})
	d.in, d.out = in, bufio.NewReader(out)
	d.Again()
	return d
}

// Again starts the daemon, which has ended, again.
func (d *Daemon) Again() {
	d.t.Helper()
	if _, err := io.WriteString(d.in, "start\n"); err != nil {
		d.t.Fatal(err)
	}
	if line, err := d.out.ReadString('\n'); err != nil || line != "ready\n" {
		d.t.Fatalf("dockerd does not start: %q, %v", line, err)
	}
}

// Signal sends the daemon a signal. If that ends it, it waits for its end.
func (d *Daemon) Signal(s syscall.Signal) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "pid"))
	if err != nil {
		d.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		d.t.Fatal(err)
	}
	if err := syscall.Kill(pid, s); err != nil {
		d.t.Fatal(err)
	}
	if s == syscall.SIGTERM || s == syscall.SIGKILL {
		if line, err := d.out.ReadString('\n'); err != nil || line != "ended\n" {
			d.t.Fatalf("dockerd does not end: %q, %v", line, err)
		}
	}
}

// Docker gives the daemon a command of a user, and returns what the client writes.
func (d *Daemon) Docker(args ...string) string {
	d.t.Helper()
	return d.docker(nil, args...)
}

func (d *Daemon) docker(in io.Reader, args ...string) string {
	d.t.Helper()
	cmd := exec.Command("docker", append([]string{"--host", d.Host}, args...)...)
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("docker %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Inhabit has the daemon run a container of somebody else, named "theirs", and returns a function that checks that
// exactly it and its image are there, as they were.
func (d *Daemon) Inhabit() (untouched func()) {
	d.t.Helper()
	const image, container = "theirs:1", "theirs"
	group := fmt.Sprintf("/docker-test-%d", os.Getpid()) // tests of other processes remove theirs, with what is in it
	var archive bytes.Buffer
	if err := runtime.WriteImage(&archive, image, nil); err != nil {
		d.t.Fatal(err)
	}
	d.docker(&archive, "load", "--quiet")
	program := testnet.Program(d.t, "busybox", "busybox-static")
	d.Docker("run", "--detach", "--name", container, "--network", "none", "--cgroup-parent", group, "--volume",
		program+":/sleep:ro", image, "/sleep", "1000000")
	d.t.Cleanup(func() {
		d.Docker("rm", "--force", container)
		removeCgroup(d.t, group)
	})
	look := func() string {
		return strings.Join([]string{
			d.Docker("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Names}} {{.Image}} {{.Labels}}"),
			d.Docker("inspect", "--format", "{{.State.Status}} {{.State.Pid}} {{.State.StartedAt}}", container),
			d.Docker("images", "--all", "--no-trunc", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"),
			d.Docker("volume", "ls"), d.Docker("network", "ls"),
		}, "\n")
	}
	before, _ := filepath.Glob("/run/nettoll-*")
	was := look()
	return func() {
		d.t.Helper()
		if now := look(); now != was {
			d.t.Errorf("Docker has\n%s\nwant, as before,\n%s", now, was)
		}
		if after, _ := filepath.Glob("/run/nettoll-*"); strings.Join(after, " ") != strings.Join(before, " ") {
			d.t.Errorf("directories %q, want %q as before", after, before)
		}
	}
}
