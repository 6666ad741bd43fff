package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/runtime"
)

// ours is what the daemon of the machine is called in errors.
const ours = "the machine's Docker"

// A Machine is what a host has in the machine's own Docker, in place of a [Daemon]: an image for its containers, and a
// directory for the sockets of their workers.
type Machine struct{}

// Kind returns "docker-machine".
func (Machine) Kind() string { return "docker-machine" }

// String describes the step in plain words.
func (Machine) String() string { return "image that holds nothing, in " + ours }

// Groups makes Machine a [host.Grouping].
func (Machine) Groups() {}

// Outward is true.
func (Machine) Outward() bool { return true }

// Outlives returns UntilRemoved: images are on disk.
func (Machine) Outlives() host.Lifetime { return host.UntilRemoved }

// machine is what a [Machine] keeps.
type machine struct {
	// Socket is the path of the daemon's socket on the machine, without symbolic links.
	Socket string `json:"socket"`
	// Image is the name of the image, which nobody else has.
	Image string `json:"image"`
	// Dir is a directory of the machine.
	Dir string `json:"dir"`
	// Labels are those of the image and of all containers.
	Labels map[string]string `json:"labels"`
	// Systemd says that the daemon has systemd make cgroups, and Labelled that SELinux labels containers.
	Systemd  bool `json:"systemd,omitempty"`
	Labelled bool `json:"labelled,omitempty"`
	// Settled says that the daemon has loaded or refused the image. Until then it may still load it.
	Settled bool `json:"settled,omitempty"`
}

// Labels of what nettoll makes in the machine's Docker, and the directory in which it makes directories.
const (
	runLabel  = "nettoll.run"
	hostLabel = "nettoll.host"
	nameLabel = "nettoll.container"
	runs      = "/run"
)

// noted is the file in which a host finds what its [Machine] keeps.
const noted = "machine.json"

// Apply finds the daemon and gives it the image.
func (s Machine) Apply(ctx context.Context, k *host.Kernel) (err error) {
	outside, err := k.Outside()
	if err != nil {
		return err
	}
	endpoint, err := endpoint(ctx)
	if err != nil {
		return err
	}
	name, err := os.Hostname() // that of the host
	if err != nil {
		return err
	}
	m := machine{Labels: map[string]string{runLabel: outside.Run, hostLabel: name}}
	if m.Socket, err = outside.Resolve(endpoint); err != nil {
		return absent(endpoint, err)
	}
	about, err := m.about(ctx, k)
	if err != nil {
		return err
	}
	id := "nettoll-" + strings.ToLower(rand.Text()) // which nobody else has
	m.Image, m.Dir = "nettoll:"+id, filepath.Join(runs, id)
	m.Systemd, m.Labelled = about.CgroupDriver == "systemd", about.has("selinux")
	if err := k.Keep(m); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Remove(context.WithoutCancel(ctx), k))
		}
	}()
	if err := os.Mkdir(outside.Path(m.Dir), 0o700); err != nil {
		return err
	}
	if err := m.load(ctx, k); err != nil {
		return err
	}
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	k.Implementation("runtime", about.String())
	return os.WriteFile(filepath.Join(at, noted), text, 0o600)
}

// load gives the daemon the image.
func (m *machine) load(ctx context.Context, k *host.Kernel) error {
	var image bytes.Buffer
	labels := maps.Clone(m.Labels)
	labels[nameLabel] = m.Image // so that it is another image than all others
	if err := runtime.WriteImage(&image, m.Image, labels); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, working)
	defer cancel()
	cmd, err := m.command(ctx, k, "load", "--quiet")
	if err != nil {
		return err
	}
	cmd.Stdin = &image
	if err = m.said(ctx, runtime.Run(cmd)); ctx.Err() == nil {
		m.Settled = true
		err = errors.Join(err, k.Keep(m))
	}
	return err
}

// working is how long the daemon may take for a command. A daemon that is stopped takes forever.
const working = 30 * time.Second

// machineOf returns what the [Machine] of a host keeps.
func machineOf(k *host.Kernel) (m machine, err error) {
	at, err := k.RunDir(dir)
	if err != nil {
		return m, err
	}
	text, err := os.ReadFile(filepath.Join(at, noted))
	if err != nil {
		return m, fmt.Errorf("find what this host has in %s: %w", ours, err)
	}
	return m, json.Unmarshal(text, &m)
}

// command is a command of the client, for the machine's daemon.
func (m machine) command(ctx context.Context, k *host.Kernel, args ...string) (*exec.Cmd, error) {
	outside, err := k.Outside()
	if err != nil {
		return nil, err
	}
	return commandAt(ctx, k, outside.Path(m.Socket), args...)
}

// run gives the daemon a command, and returns what the client writes.
func (m machine) run(ctx context.Context, k *host.Kernel, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, working)
	defer cancel()
	cmd, err := m.command(ctx, k, args...)
	if err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("docker %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(bytes.TrimSpace(out)), m.said(ctx, err)
}

// said is the error of a command, with the daemon's socket on the machine in place of the path by which this process
// reaches it.
func (m machine) said(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s at %s does not answer: %w", ours, m.Socket, ctx.Err())
	}
	return &daemonError{m.Socket, err}
}

// A daemonError is an error of a command for the daemon with this socket.
type daemonError struct {
	socket string
	err    error
}

// Error is the text of the command, with the path of the socket on the machine.
func (e *daemonError) Error() string {
	return ours + " at " + e.socket + ": " + plain(e.err.Error(), e.socket)
}

// plain is a text of the client with the path of a socket on the machine in place of that by which this process reaches
// it.
func plain(text, socket string) string {
	before, after, ok := strings.Cut(text, "unix:///proc/")
	if !ok {
		return text
	}
	if _, after, ok = strings.Cut(after, socket); !ok {
		return text
	}
	return before + "unix://" + socket + after
}

// Unwrap returns the error of the command.
func (e *daemonError) Unwrap() error { return e.err }

// gone waits until the daemon has removed something, by a command that removes it if it is there. Before a command that
// makes it was answered, it may appear later.
func (m machine) gone(ctx context.Context, k *host.Kernel, settled bool, missing string, args ...string) error {
	by, err := m.borrowed(k)
	if err != nil {
		return err
	}
	if err := by.Answers(); err != nil { // the client would wait for longer
		return err
	}
	for end := time.Now().Add(appearing); ; time.Sleep(100 * time.Millisecond) {
		said, err := m.run(ctx, k, args...)
		switch {
		case said != "" && err == nil:
			return nil
		case err == nil: // the client forgives that with --force (since Docker 23)
		case strings.Contains(err.Error(), "is already in progress"):
			settled = false
		case !strings.Contains(err.Error(), missing):
			return err
		}
		if settled || time.Now().After(end) {
			return nil
		}
	}
}

// appearing is how long the daemon may still work for a client that was killed.
const appearing = 3 * time.Second

// Remove removes the image and the directory, also if the host is gone.
func (Machine) Remove(ctx context.Context, k *host.Kernel) error {
	var m machine
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	outside, err := k.Outside()
	if err != nil {
		return err
	}
	return errors.Join(m.gone(ctx, k, m.Settled, "No such image", "rmi", m.Image), os.RemoveAll(outside.Path(m.Dir)))
}

// Verify wants the directory to be there. No packet passes the daemon, which need not run meanwhile.
func (s Machine) Verify(k *host.Kernel) error {
	var m machine
	if _, err := k.Kept(&m); err != nil {
		return err
	}
	outside, err := k.Outside()
	if err != nil {
		return err
	}
	if _, err := os.Stat(outside.Path(m.Dir)); err == nil {
		return nil
	}
	d := &host.DriftError{Step: s.String()}
	d.Add("directory "+m.Dir, "present", "absent")
	return d
}

// borrowed is the daemon, for containers of a host.
func (m machine) borrowed(k *host.Kernel) (*runtime.Borrowed, error) {
	outside, err := k.Outside()
	if err != nil {
		return nil, err
	}
	return &runtime.Borrowed{
		Outside: outside, Name: ours, Socket: m.Socket, Dir: m.Dir,
		Process: func(container string) (int, error) {
			text, err := m.run(context.Background(), k, "inspect", "--format", "{{.State.Pid}}", container)
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(text)
		},
		Kill: func(container string) {
			_, _ = m.run(context.Background(), k, "kill", container) // it may be gone
		},
		Status: func(container string) string {
			code, err := m.run(context.Background(), k, "wait", container)
			if err != nil {
				return process.Ended(nil)
			}
			return "exit status " + code
		},
	}, nil
}

// args are those of "docker run" that all containers of the host have.
func (m machine) args(of runtime.Made, container string) []string {
	args := []string{"--name", of.Known(container), "--label", nameLabel + "=" + container}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		args = append(args, "--label", name+"="+m.Labels[name])
	}
	if !m.Systemd { // which would leave a slice
		args = append(args, "--cgroup-parent", "/"+of.Cgroup)
	}
	if m.Labelled { // a labelled container has no access to files of the machine
		args = append(args, "--security-opt", "label=disable")
	}
	return args
}

// about is what "docker info" says of a daemon.
type about struct {
	ServerVersion, CgroupDriver string
	SecurityOptions             []string
	ServerErrors                []string
}

// has reports whether a security option is on: "userns".
func (a about) has(option string) bool {
	return slices.ContainsFunc(a.SecurityOptions, func(o string) bool {
		return o == "name="+option || strings.HasPrefix(o, "name="+option+",")
	})
}

// String says what makes containers: "docker 20.10.24 of the machine (seccomp default)".
func (a about) String() string {
	var options []string
	for _, o := range a.SecurityOptions {
		o = strings.TrimPrefix(o, "name=")
		options = append(options, strings.Replace(o, ",profile=", " ", 1))
	}
	s := "docker " + a.ServerVersion + " of the machine"
	if len(options) > 0 {
		s += " (" + strings.Join(options, ", ") + ")"
	}
	return s
}

// about asks the daemon, and refuses one whose containers this process cannot join to networks.
func (m machine) about(ctx context.Context, k *host.Kernel) (about, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	cmd, err := m.command(ctx, k, infoArgs()...)
	if err != nil {
		return about{}, err
	}
	return info(ctx, m.Socket, cmd)
}

func infoArgs() []string { return []string{"info", "--format", "{{json .}}"} }

// info is [machine.about], by a command.
func info(ctx context.Context, socket string, cmd *exec.Cmd) (a about, err error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &a)
	} else if ctx.Err() != nil {
		err = fmt.Errorf("no answer: %w", ctx.Err())
	}
	said := strings.Join(a.ServerErrors, "; ")
	if err != nil {
		said = strings.TrimSpace(stderr.String())
	}
	if said != "" {
		err = errors.New(plain(said, socket))
	}
	if err != nil {
		return a, absent(socket, err)
	}
	if err := runtime.TooOld(using, "a daemon of Docker", a.ServerVersion, least,
		"install a newer package "+pkg+", or choose docker(use=own)"); err != nil {
		return a, err
	}
	for _, option := range []string{"rootless", "userns"} {
		if a.has(option) {
			return a, &linux.UnsupportedError{
				What: using, Missing: "containers without user namespaces: that of " + socket + " has " + option,
				Hint: "use the daemon of root without userns-remap, or docker(use=own)",
			}
		}
	}
	return a, nil
}

const using = "use " + ours

// absent explains why a daemon does not answer.
func absent(socket string, err error) error {
	u := &linux.UnsupportedError{
		What: using, Missing: "a daemon that answers at " + socket, Err: err,
		Hint: "start it (systemctl start docker), set DOCKER_HOST, or choose docker(use=own), which starts one of its own",
	}
	switch text := strings.ToLower(err.Error()); {
	case strings.Contains(text, "permission denied"):
		u.Missing, u.Hint = "permission to use "+socket, "run as root"
	case strings.Contains(text, "too old"), strings.Contains(text, "too new"):
		u.Missing, u.Hint = "a client that fits the daemon at "+socket, "install docker of the daemon's version"
	}
	return u
}

// endpoint returns the path of the socket that the client uses by default: that of DOCKER_HOST, or else of the context
// that the user has chosen.
func endpoint(ctx context.Context) (string, error) {
	at := os.Getenv("DOCKER_HOST")
	if at == "" {
		ctx, cancel := context.WithTimeout(ctx, asking)
		defer cancel()
		cmd := exec.CommandContext(ctx, client, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
		out, err := cmd.CombinedOutput()
		at = strings.TrimSpace(string(out))
		switch {
		case errors.Is(err, exec.ErrNotFound):
			return "", &linux.UnsupportedError{
				What: using, Missing: fmt.Sprintf("program %q", client), Hint: "install the package " + pkg, Err: err,
			}
		case ctx.Err() != nil: // older clients ask the daemon, too
			return "", absent("the socket of docker", ctx.Err())
		case err != nil:
			return "", &linux.UnsupportedError{
				What: using, Missing: "a valid context of docker", Hint: "see docker context ls", Err: errors.New(at),
			}
		}
	}
	path, ok := strings.CutPrefix(at, "unix://")
	if !ok {
		return "", &linux.UnsupportedError{
			What: using, Missing: "a daemon on this machine, at a socket unix://…",
			Hint: fmt.Sprintf("docker talks to %q: unset DOCKER_HOST and DOCKER_CONTEXT, or choose docker(use=own)", at),
		}
	}
	return path, nil
}

// Daemon asks the daemon that the client uses by default.
func (Runtime) Daemon(ctx context.Context) (string, error) {
	if err := cgroup.Usable(using); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	socket, err := endpoint(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, client, append([]string{"--host", "unix://" + socket}, infoArgs()...)...)
	a, err := info(ctx, socket, cmd)
	if err != nil {
		return "", err
	}
	return a.ServerVersion + " at " + socket, nil
}

// asking is how long the daemon may take to say what it is.
const asking = 5 * time.Second
