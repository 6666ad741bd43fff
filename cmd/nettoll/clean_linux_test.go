package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime/dockertest"
)

// nettoll clean names each container, image and control group that a killed run has left, of every runtime that leaves
// some. All of it is gone then, and nothing else is.
func TestCleanNames(t *testing.T) {
	testnet.Root(t)
	for _, tt := range []struct {
		runtime, program string
		says             []string // after "undid a step of run PID: ", sorted
	}{
		{"netns(group=own)", "", []string{"control groups of workers"}},
		{"oci", "runc", []string{"runc container snk0", "runc container src0"}},
		{"oci(command=crun)", "crun", []string{"crun container snk0", "crun container src0"}},
		{"lxc", "lxc-start", []string{"lxc container snk0", "lxc container src0"}},
		{"docker", "dockerd", []string{
			"docker container snk0, with a seccomp profile, with a way to new privileges",
			"docker container src0, with a seccomp profile, with a way to new privileges",
		}},
		{"podman", "podman", []string{
			"podman container snk0, with a seccomp profile, with a way to new privileges",
			"podman container src0, with a seccomp profile, with a way to new privileges",
		}},
		{"containerd", "containerd", []string{"containerd container snk0", "containerd container src0"}},
		{"docker(use=machine)", "dockerd", []string{
			"docker container snk0, with a seccomp profile, with a way to new privileges, in the machine's Docker",
			"docker container src0, with a seccomp profile, with a way to new privileges, in the machine's Docker",
			"image that holds nothing, in the machine's Docker",
		}},
	} {
		t.Run(tt.runtime, func(t *testing.T) {
			t.Parallel()
			if tt.program != "" {
				testnet.Program(t, tt.program, tt.program)
			}
			h := newHome(t, nil)
			if tt.runtime == "docker(use=machine)" {
				theirs := dockertest.Start(t)
				t.Cleanup(theirs.Inhabit()) // checks at the end that nothing of somebody else is gone
				h.env, h.docker = append(h.env, "DOCKER_HOST="+theirs.Host), theirs
			}
			s := prepare(t, filepath.Join(t.TempDir(), "run"), "--network", "bridge", "--runtime", tt.runtime, "--placement",
				"same-host", "--workload", "udp-rr", "--time", "30s")
			s.cmd.Env = append(s.cmd.Env, h.env...)
			s.begin()
			s.blocks(1)
			if err := unix.Kill(s.cmd.Process.Pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			s.wait(5 * soon)
			s.leavesNothing(s.end)
			names := h.names()
			if left := h.left(names); len(left) == 0 {
				t.Fatalf("nothing of %q is left: this shows nothing", names)
			}
			said := h.run("clean")
			if said.status != 0 || said.stderr != "" {
				t.Errorf("clean exits with %d: %s", said.status, said.stderr)
			}
			var undid []string
			form := regexp.MustCompile(`^undid a step of run (\d+): (.*)\n$`)
			for line := range strings.Lines(said.stdout) {
				if found := form.FindStringSubmatch(line); found != nil {
					line = found[2]
				}
				undid = append(undid, line)
			}
			slices.Sort(undid)
			if diff := cmp.Diff(tt.says, undid); diff != "" {
				t.Errorf("clean (-want +said):\n%s", diff)
			}
			if left := h.left(names); len(left) > 0 {
				t.Errorf("after clean there still are %q", left)
			}
			if again := h.run("clean"); again.stdout != "nothing to clean up\n" {
				t.Errorf("clean says %q the second time", again.stdout)
			}
		})
	}
}

// nettoll clean ends containers that were frozen when their run was killed, as runc freezes those that it kills.
func TestCleanFrozen(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	testnet.Program(t, "runc", "runc")
	h := newHome(t, nil)
	s := prepare(t, filepath.Join(t.TempDir(), "run"), "--network", "bridge", "--runtime", "oci", "--placement",
		"same-host", "--workload", "udp-rr", "--time", "30s")
	s.cmd.Env = append(s.cmd.Env, h.env...)
	s.begin()
	s.blocks(1)
	names, frozen := h.names(), 0
	for _, name := range names {
		for file, value := range map[string]string{"freezer.state": "FROZEN", "cgroup.freeze": "1"} { // of v1, and of v2
			paths, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", name, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range append(paths, filepath.Join("/sys/fs/cgroup", name, file)) {
				if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
					if _, err := f.WriteString(value); err != nil {
						t.Error(err)
					}
					_ = f.Close()
					frozen++
				}
			}
		}
	}
	if frozen == 0 {
		t.Error("no container could be frozen: this shows nothing")
	}
	if err := unix.Kill(s.cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	s.wait(5 * soon)
	if said := h.run("clean"); said.status != 0 || strings.Count(said.stdout, ": runc container ") != 2 {
		t.Errorf("clean exits with %d: %s%s", said.status, said.stdout, said.stderr)
	}
	if left := h.left(names); len(left) > 0 {
		t.Errorf("after clean there still are %q", left)
	}
	s.leavesNothing(time.Now())
}

// A home is a directory for the journals of runs that no other run cleans up after.
type home struct {
	t      *testing.T
	dir    string
	env    []string // of those that live in it
	user   *syscall.Credential
	docker *dockertest.Daemon // that makes containers for them; nil if none does
}

// newHome makes a home for runs of a user; nil is root.
func newHome(t *testing.T, user *syscall.Credential) *home {
	t.Helper()
	h := &home{t: t, dir: filepath.Join(reachable(t), "runtime"), user: user}
	h.env = []string{"XDG_RUNTIME_DIR=" + h.dir}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if user != nil {
		if err := os.Chown(h.dir, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// run runs a command in the home.
func (h *home) run(args ...string) output {
	h.t.Helper()
	return nettollIn(h.t, h.user, h.env, args...)
}

// journals returns the text of all journals.
func (h *home) journals() string {
	h.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "nettoll", "journals", "*.jsonl"))
	if err != nil {
		h.t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			h.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// random is the form of names that nobody else has: of control groups, containers, images and directories.
var random = regexp.MustCompile(`nettoll-[a-z2-7]{26}`)

// names returns the names of that form in the journals.
func (h *home) names() []string {
	h.t.Helper()
	found := random.FindAllString(h.journals(), -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// left lists what the machine has with these names: control groups, directories, and what is in Docker.
func (h *home) left(names []string) (found []string) {
	h.t.Helper()
	note := func(what, text string) {
		if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(text, n) }) {
			found = append(found, what+" "+text)
		}
	}
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			note("control group", path)
		}
		return nil // others' cgroups come and go
	})
	if err != nil {
		h.t.Fatal(err)
	}
	dirs, err := filepath.Glob("/run/*")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, d := range dirs {
		note("directory", d)
	}
	if h.docker != nil {
		for line := range strings.Lines(h.docker.Docker("ps", "--all", "--format", "{{.Names}}")) {
			note("container", strings.TrimSpace(line))
		}
		for line := range strings.Lines(h.docker.Docker("images", "--all", "--format", "{{.Repository}}:{{.Tag}}")) {
			note("image", strings.TrimSpace(line))
		}
	}
	return found
}
